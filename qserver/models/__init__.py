"""Graphical models as mathematics. Pure: no server, no store, no budget.

`network` holds Bayesian networks and their learning from noisy tables, `marginals` holds
marginal-based estimation, and `tracing` bounds how much a released model reveals of its records.

Which one to call: `network` if the structure is known and exact conditional probabilities are
wanted, `marginals` for any set of measured marginals and for synthetic records.

`answering.models` makes these kinds of model known to the server.
"""
