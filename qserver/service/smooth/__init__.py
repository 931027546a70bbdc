"""Smooth numbers of statements: averages, shares, growths, deviations, correlations.

`steps` says what is measured of them next. `cells` makes the cells of a table of them.
"""
