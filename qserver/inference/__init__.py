"""From released history to answers: pure functions of rows, scales and noisy answers.

Begin with `engine`, the entry for the service and the planner. Below it, `rows` finds the best
linear unbiased weights on single rows, `tables` answers from measured tables, `smooth` gives
averages and other smooth functions of sums, `posterior` gives the posterior of one query or of a
workload, `disagreement` the law of its error where answers disagree, `estimate` that of a row where
none do, and `law` the distribution of a sum of Laplace variables.

Which one to call: `engine.InferenceEngine`; if only the law of an error is needed,
`law.laplace_sum.LaplaceSum`.
"""
