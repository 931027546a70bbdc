"""Lengths, bounds and remarks of a table's numbers.

`catalogue` has public facts.
"""
