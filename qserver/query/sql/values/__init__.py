"""Values of expressions of one record, each with its cells.

`expression_values` stores them, `ranges` has numbers on bins, and `point_values` the engine's
results on single values. `record_functions` reads any expression by these and by the calendar.
"""
