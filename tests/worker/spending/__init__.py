"""Jobs that spend budget."""
