"""Dates, periods and levels in SQL.

`conditions` compares dates and periods with texts. `derived` has what follows from them and from
labels, such as months and regions, and `comparing` compares that.
"""
