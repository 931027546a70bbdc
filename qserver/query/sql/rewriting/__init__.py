"""Spellings of the same, put into the words that the rest reads.

`select_columns` notes how each item is written, and puts what a name stands for in its place.
`spelling` puts one spelling for each thing. `sets` lists the groups of ROLLUP and its like.
"""
