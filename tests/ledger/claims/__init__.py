"""Bounds of claims against posteriors and linear programs by other routes."""
