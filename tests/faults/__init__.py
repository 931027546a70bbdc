"""Stores that are cut, processes that are killed, races."""
