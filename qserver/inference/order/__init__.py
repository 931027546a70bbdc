"""Numbers by their place among the values of an attribute in order: quantiles.

Begin with `quantile`: what is asked. `D(v)` is the number of values up to v less the part p of all
values; the quantile is where it passes 0. `known` has what history says of D at some thresholds,
and the interval of the quantile that follows. `search` says which table to measure next, and when
nothing more is worth measuring. All of it depends on released answers and public facts alone.
"""
