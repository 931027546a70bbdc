"""Bayesian networks: structure, parameters, exact inference, files.

Begin with `structure` and `network`. `variable_elimination` answers queries, `bif` reads and
writes files, and `error_bounds` bounds the errors of learnt answers. `learning` learns parameters
from noisy tables.

Which one to call: `variable_elimination.NetworkQuestions` for answers,
`network.draw_records` for records, `learning` for a network's parameters.
"""
