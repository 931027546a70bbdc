"""Blocks of disjoint rows on a lattice of nested partitions, and their closed-form BLUE.

chain    nested partitions of one attribute's classes, level 0 the whole, each dividing the next
pattern  a query seen from the chains: its component on every level, per attribute
blocks   noisy blocks: information, variance, estimability, weights and scales of a query
beside   single rows measured beside the blocks (Woodbury)
"""
