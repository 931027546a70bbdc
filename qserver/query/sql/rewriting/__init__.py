"""Spellings of the same, put into the words that the rest reads.

`spelling` puts one spelling for each thing, `days` those of the calendar. `sets` lists the groups
of ROLLUP and its like.
"""
