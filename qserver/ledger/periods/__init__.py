"""What a person loses whose records are spread over periods."""
