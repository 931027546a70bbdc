"""Graphical models as mathematics. Pure: no server, no store, no budget.

`network` holds Bayesian networks and how they are learnt from noisy tables, `marginals` holds
marginal-based estimation, `tracing` bounds what a model could leak.

`answering.models` makes these kinds of model known to the server.
"""
