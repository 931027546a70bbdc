"""Posteriors from released answers."""
