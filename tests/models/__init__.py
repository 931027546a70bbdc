"""Models that are fitted to released answers."""
