"""The posterior of one query.

Begin with `posteriors`: the posterior of an estimate, with what it is a statement of (`stated`).
Where nothing disagrees it is a `posterior.Posterior`: an estimate, the law of its error, and an
allowance; else a `given.GivenPosterior`. `row_estimate` adds the weights that gave it. `curve`
turns a posterior into points to draw.

Which one to call: `posteriors.Posteriors.of`; for the prior that a count is never negative,
`positive_prior.PositivePosterior`.
"""
