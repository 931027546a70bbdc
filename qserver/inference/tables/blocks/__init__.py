"""Blocks of disjoint rows on nested partitions, and their closed-form best estimates.

Begin with `nested_partitions`, the nested partitions of one attribute's classes, and `pattern`, the
components of a query on them and which of these are not zero. `noisy_blocks` gives information,
variance and weights, `own_row` adds a measurement of the query itself, and `placement` maps the
cells of a measured table to its block.

Which one to call: `noisy_blocks.Blocks` for weights and variances on blocks alone,
`own_row.blocks_and_row` to join them with a measurement of the query.
"""
