"""What accounts keep for themselves."""
