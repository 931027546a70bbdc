"""Measured rows: estimates, classes and tails."""
