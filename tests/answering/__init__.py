"""A question from its history to its answer."""
