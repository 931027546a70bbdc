"""Functions of several sums, and their asked exactness.

`function_reader` finds the function of an item. `moments` has deviations, correlations, lines,
skewness and kurtosis. `smooth` has quotients, the common parts of smooth functions, and the asked
exactness of these and of numbers told by places in order.
"""
