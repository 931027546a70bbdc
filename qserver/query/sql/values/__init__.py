"""The values of expressions of one record, each with the cells on which an expression has it.

`expression_values` has how they are kept, `ranges` what numbers are on bins, and `point_values`
what the engine makes of single values. `record_functions` reads any expression by these and by the
calendar.
"""
