"""How to meet a requirement for the least loss of privacy. Pure: no I/O, no clock, no randomness.

planner      the cheapest plan for one question
allocation   the least alpha with which a fresh row meets a requirement
neighbours   what one person changes, and so what a charge can cost at most
ledger       the loss of every cell, and what a population has spent
maximum      the greatest entry of a sum of losses: exact while it can be, else an upper bound
loss         one row's loss as small tables over the classes of its own attributes
table, partition        sums of such tables, and the classes that they are written down on
elimination, shifting   two ways to bound a sum whose product grid is too large to write down

candidates   the rows to measure or to refine that a plan is chosen from

Blocks (all cells of a product of partitions, measured at one scale), which the server does not use
yet; `docs/benchmarks.md` says what they would save:

bought, blocks_ledger   blocks and rows that are there, and what they cost together
wanted, recombined      requirements seen, and what they suggest for later
base, star              the best blocks for those requirements, from several starts
rent_or_buy, workload   the rule for one question, and many questions planned as one
"""
