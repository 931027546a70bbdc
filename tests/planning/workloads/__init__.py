"""Plans of many questions at once."""
