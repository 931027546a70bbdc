"""Plans: what to measure, and for how much."""
