"""Marginal models: fit, selection, records."""
