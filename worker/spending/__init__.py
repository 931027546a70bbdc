"""One spend, from a taken job to its acknowledgement. Spend before reveal; fail closed.

Begin with `spend`, which reads like the protocol: plan, reserve, draw, journal, publish. `loop`
takes the jobs. `answers_in_force` refuses a draw that continues from an answer that is not in
force, and `measure` draws.
"""
