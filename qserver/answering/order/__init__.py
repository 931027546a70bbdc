"""Numbers told by places in order, by what history knows of the counts behind them.

`quantiles` has quantiles and extremes, `groups` the numbers of groups that pass a test, and `sums`
what is calculated of both.
"""
