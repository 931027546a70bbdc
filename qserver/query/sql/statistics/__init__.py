"""Functions of several sums by the intervals of these, and how exact they are asked to be.

`function_reader` finds which one an item asks for. `moments` has deviations, correlations,
lines, skewness and kurtosis. `smooth` has quotients, what smooth functions have in common, and how
exact these and those told by places in order are asked to be.
"""
