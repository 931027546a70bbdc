"""Meanings of items of SELECT: linear combinations, quotients, functions of several sums.

`item_meaning` has the three. `function_of_sums` is the interface of a function of several sums.
Functions found by counts have a file each: `quantile`, for extremes as well, on the counts of
`thresholds`, and `group_count`. `arithmetic` joins several.
"""
