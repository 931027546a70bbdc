"""Exact noise and its randomness."""
