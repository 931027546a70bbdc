"""The shared middle: from public state and a question to a free answer, a refusal or a plan.

The online side and the worker run the same code here, so a price that was shown is the price
that is charged. Begin with `decide`. `replica` is a process's copy of a dataset's public state,
`answer` turns estimates into answers, `workload` and `smooth_numbers` do so for many questions and
for averages and the like, `explain` prices without spending. The room `models` makes kinds of
model known; `plots` draws.

Door: `decide.decide`, or `explain` if nothing may be spent.
"""
