"""Fitting: the model nearest to the noisy marginals.

Begin with `observations`, the tables as the optimum sees them. `consensus` finds the exact
optimum, `descent` follows a gradient, `likeliest` takes the potentials of most entropy.

Door: `estimate` chooses among these; call it.
"""
