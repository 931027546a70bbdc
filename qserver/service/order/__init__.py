"""Quantiles of statements, and sums of them.

`steps` says which counts are measured of them next. `cells` makes the cells of a table of them.
"""
