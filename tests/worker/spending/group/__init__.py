"""Jobs that are spent for together."""
