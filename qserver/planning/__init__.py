"""How to meet a requirement for the least loss of privacy. Pure: no I/O, no clock, no randomness.

planner      the cheapest plan for one question
allocation   the least alpha with which a fresh row meets a requirement
neighbours   what one person changes, and so what a charge can cost at most
ledger       the loss of every cell, and what a population has spent
maximum      the greatest entry of a sum of losses: exact while it can be, else an upper bound
loss         one row's loss as small tables over the classes of its own attributes
table, partition        sums of such tables, and the classes that they are written down on
elimination, shifting   two ways to bound a sum whose product grid is too large to write down
"""
