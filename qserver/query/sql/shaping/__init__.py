"""What a statement does with numbers that were released: choose, rank and round them, in units.

`ranks` has RANK with its intervals, `rounding` rounds numbers and their ends, `choosing` says which
rows are shown by numbers that are not known yet, and `units` what a number is counted in.
"""
