"""Functions of several sums, and their asked exactness.

`statistics_by_name` says which names SQL knows, and finds the function of an item. `moments` has
deviations, correlations, lines, skewness and kurtosis. `smooth_functions` has quotients, the common
parts of smooth functions, and the asked exactness of these and of numbers told by places in order.
"""
