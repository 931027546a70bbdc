"""From released history to answers: pure functions of rows, scales and noisy answers.

Begin with `engine`, the one door for the service and the planner. Below it: `rows` finds the
best linear unbiased weights on single rows, `tables` answers from measured tables, `joint`
bounds several errors at once, `posterior` says what is known of one query, and `law` computes
the distribution of a sum of Laplace variables.

Door: `engine.InferenceEngine`, unless only a law is needed: then `law.laplace_sum.LaplaceSum`.
"""
