"""The values of expressions of one record, each with the cells on which an expression has it.

`found` has how they are kept, `ranges` what numbers are on bins, and `grid` what the engine makes
of single values. `derived` reads any expression by these and by the calendar.
"""
