"""Blocks of disjoint rows on a lattice of nested partitions, and their closed-form BLUE.

chain         nested partitions of one attribute's classes, level 0 the whole, each within the last
pattern       a query seen from the chains: its component on every level, per attribute
support       which components are not zero, exactly, modulo secret primes
box           a query of several terms that is a product of sets, as the one term it is
cell_weights  weights of a query on a block's cells, equal ones stated once
blocks        noisy blocks: information, variance, estimability, weights, their rounding, scales
beside        the query's own row, or its own cell, beside the rest of the blocks
placement     where the cells of a measured table stand in its block
"""
