"""Marginal-based estimation: one consistent, non-negative model out of many noisy marginals.

Begin with `model`, the result, and `estimate`, which fits it. `selection` chooses the marginals to
measure. Below are `fit` (the optimisation) and `graph` (cliques and messages). Everything works on
proportions and flat float64 vectors.

Which one to call: `estimate.estimate`.
"""
