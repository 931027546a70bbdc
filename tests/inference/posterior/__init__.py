"""Estimates and intervals from a law."""
