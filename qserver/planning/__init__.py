"""How to meet a requirement for the least loss of privacy. Pure: no I/O, no clock, no randomness.

Begin with `planner`: the plan for one question, by rows alone or by blocks where the rule says
so. `row_candidates` lists the ways by rows, `holdings` is the planner's view of what there is,
`fresh_row` gives the least alpha of a fresh row, `effort` counts the work that a plan may
take, `failures` lets a fault cost one way alone. A block is all cells of a product of partitions,
measured at one scale. The room `blocks` decides when to buy blocks and which; `workloads` plans
many questions as one.

Doors: `planner.plan_answer` for one question, `workloads.workload` for many.
"""
