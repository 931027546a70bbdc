"""What a statement does with numbers that were released: choose, rank and round them, in units.

`ranks` has RANK with its intervals, `rounding` rounds numbers and their ends, `inner_select` says
which rows are shown by numbers that are not known yet, and `units_of_measure` what a number is
counted in.
"""
