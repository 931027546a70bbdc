"""The posterior of one query.

Begin with `posterior`: an estimate, the law of its error, and an allowance. `row_estimate` adds
the weights that gave it. `curve` turns a posterior into points to draw.

Which one to call: `posterior.Posterior`; for the prior that a count is never negative,
`positive_prior.PositivePosterior`.
"""
