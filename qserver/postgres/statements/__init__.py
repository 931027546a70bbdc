"""Statements about a dataset: planned, answered in processes of their own, and waited for."""
