"""Fitting: the model nearest to the noisy marginals.

Begin with `observations`: the released answers as rows on the flat vector of tables. `consensus`
finds the optimum over agreeing tables, `likeliest` the distribution of most entropy near it, and
`descent` is the fallback by proximal steps.

Which one to call: `estimate` of the folder above, which chooses among these.
"""
