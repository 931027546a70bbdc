"""Numbers by their place among the values of an attribute in order: quantiles and extremes.

Begin with `quantile`: a quantile, and its interval from history. `D(v)` is the number of values up
to v less the part p of all values; the quantile is where it passes 0, and the least value where it
passes from none to some. `search` chooses the next table to measure, and when to stop. All of it
depends on released answers and public facts alone.
"""
