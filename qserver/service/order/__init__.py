"""Numbers of statements that are told by places in order: quantiles, extremes, numbers of groups.

`steps` says which counts are measured of them next. `cells` makes the cells of a table of them.
"""
