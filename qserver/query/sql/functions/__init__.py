"""What an item of SELECT means: a linear combination, a quotient, or a function of several sums.

`item_meaning` holds the three as they are read, and of which numbers. `function_of_sums` says what
a function of several sums must know. Those told by counts have a file each: `quantile`, for
extremes as well, on the counts of `thresholds`, and `group_count`. `arithmetic` joins several.
"""
