"""Bayesian networks: structure, parameters, exact inference, files.

Begin with `structure` and `network`. `elimination` answers queries, `bif` reads and writes
files, `error_bounds` tells how wrong learnt answers can be. The room `learning` learns
parameters.
"""
