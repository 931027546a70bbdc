"""How to meet a requirement for the least loss of privacy. Pure: no I/O, no clock, no randomness.

ledger      the loss of every cell, and what a population has spent
loss        one row's loss as a table over the classes of its own attributes
table       a sum of such tables over the product of a few attributes' classes
maximum     the greatest entry of a sum of tables: exact while it can be, else an upper bound
elimination, shifting   the two ways to bound it where the product cannot be written down
allocation  the least alpha with which a fresh row meets a requirement
"""
