"""Fitting: the model nearest to the noisy marginals.

Begin with `observations`: the released answers as rows on the flat vector of tables. `consensus`
finds the optimum over agreeing tables, and `descent` the distribution of most entropy near it, or
falls back on proximal steps.

Which one to call: `estimate` of the folder above, which chooses among these.
"""
