"""The posterior of one query.

Begin with `posteriors`: the posterior of an estimate, with what it is a statement of (`stated`).
Where nothing disagrees it is a `posterior.Posterior`: an estimate, the law of its error, and an
allowance; else a `given.GivenPosterior`. `row_estimate` adds the weights that gave it. `curve`
turns a posterior into points to draw. Computing one takes long, so it is done apart from the
history (`stated`), and once for questions that differ in the names of values (`alike`).

A question may be read otherwise: by a method of the source paper (`by_method`), or cut at ends that
it is held to lie between (`cut`). `read` does both.

Which one to call: `posteriors.Posteriors.of`, `stated.ToState.stated`, then `read.read`.
"""
