"""What an item of SELECT means: a linear combination, a quotient, or a function of several sums.

`meaning` holds the three as they are read. `function` says what a function of several sums must
know, `function_reader` finds which one an item asks for, and `values` of which numbers. Each has a
file: `quantile` on the counts of `thresholds`, for extremes as well, `group_count`, and by the
ranges of `moments` also `spread` and `correlation`. `exactness` says how exact numbers are asked to
be that are told by places in order. `smooth` has quotients, what smooth functions have in common,
and how exact these are asked to be.
"""
