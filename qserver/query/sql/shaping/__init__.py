"""Released numbers in a statement: choose, rank and round them, in units.

`ranks` has RANK with its intervals, `rounding` rounds numbers and their ends, `inner_select` finds
the groups of a SELECT behind IN, and `units_of_measure` the unit of a number.
"""
