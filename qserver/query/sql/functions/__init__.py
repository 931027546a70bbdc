"""What an item of SELECT means: a linear combination, a quotient, or a function of several sums.

`meaning` holds the three as they are read, `values` of which numbers. `function` says what a
function of several sums must know. Those told by counts have a file each: `quantile`, for extremes
as well, on the counts of `thresholds`, and `group_count`. `calculated` joins several.
"""
