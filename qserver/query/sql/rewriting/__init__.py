"""Spellings of the same, put into the words that the rest reads.

`written` notes how each item is written. `spelling` and `tidy` put one spelling for each thing, and
leave out what changes no value. `columns` puts what a name stands for in its place. `sets` lists
the groups of ROLLUP and its like.
"""
