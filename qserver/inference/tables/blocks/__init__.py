"""Blocks of disjoint rows on nested partitions, and their closed-form best estimates.

Begin with `chain`, the nested partitions of one attribute's classes, and `pattern`, a query
seen from them. `support` decides which components are not zero, `noisy_blocks` gives
information, variance and weights, `own_row` adds the query's own row or cell, and `placement`
says where the cells of a measured table stand. `box` and `cell_weights` state a query's weights
compactly.
"""
