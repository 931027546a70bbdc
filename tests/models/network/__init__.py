"""Bayesian networks: structure, learning, elimination."""
