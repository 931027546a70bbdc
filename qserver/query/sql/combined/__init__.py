"""Functions of several sums by the intervals of these, and how exact they are asked to be.

`function_reader` finds which one an item asks for. Each has a file: by the ranges of `moments`,
`spread` has variances and deviations, `correlation`, `regression` and `skewness_kurtosis` the rest.
`smooth` has quotients, what smooth functions have in common, and how exact these are asked to be;
`exactness` has those that are told by places in order.
"""
