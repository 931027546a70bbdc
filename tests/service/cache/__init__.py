"""What one process keeps of its results, and what it shares."""
