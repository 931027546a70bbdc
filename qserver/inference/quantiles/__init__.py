"""Numbers by their place among the values of an attribute in order: quantiles and extremes.

Begin with `quantile`: what is asked, and what history says of it. `D(v)` is the number of values up
to v less the part p of all values; the quantile is where it passes 0, and the least value where it
passes from none to some. `search` says which table to measure next, and when nothing more is worth
measuring. All of it depends on released answers and public facts alone.
"""
