"""How to meet a requirement for the least loss of privacy. Pure: no I/O, no clock, no randomness.

allocation   the least alpha with which a fresh row meets a requirement
neighbours   what one person changes, and so what a charge can cost at most
ledger       the loss of every cell, and what a population has spent
dues         what charges come to: rows, refunds, and what every cell pays alike
maximum      the greatest entry of a sum of losses: exact while it can be, else an upper bound
loss         one row's loss as small tables over the classes of its own attributes
table, partition        sums of such tables, and the classes that they are written down on
elimination, shifting   two ways to bound a sum whose product grid is too large to write down
search       a proof, by branch and bound, that no cell's loss passes a level

planner      the plan for one question: rows alone, or blocks where the rule says so
candidates   the ways by rows alone
purchase     what a plan buys: rows and tables, with their charges
bought       what is there, seen by the planner: tables and rows, and what they say of a query
own_cells    which rows and cells of tables may share one chain of noises
proven       a plan that only the quick bound refuses, taken where the loss is proven to fit

Blocks are all cells of a product of partitions, measured at one scale; each is a table.

rent_or_buy  when to buy blocks, and which
demand       what was asked and paid for: all that the rule goes by
wanted, recombined      requirements seen, and what they suggest for later
learner      levels that end where questions do, or regular ones: whichever are cheaper
learnt       those levels; confirmed: what was planned on them, where it is answered
effort       the work that a plan may take, counted in place of time
star, base   the best blocks for those requirements, from several starts
workload     many questions planned as one: own rows, whole blocks, a base, or
workload_base           a base for them, on levels that end where they do, too
one_by_one   what each would buy by itself
scaling      how much of a purchase of blocks meets them all
together     workloads whose intervals must all hold at once
shared       their answers on the noises that they share, and the bound on all of them
question     a question of a workload
"""
