"""Reading private data."""
