"""Noisy blocks of a measured table."""
