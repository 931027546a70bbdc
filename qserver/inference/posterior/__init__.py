"""The posterior of one query.

Begin with `posteriors`: the posterior of an estimate, with what it is a statement of
(`posterior.Stated`). Where nothing disagrees it is a `posterior.Posterior`: an estimate, the law of
its error, and an allowance; else a `posterior.GivenPosterior`. `posterior.RowEstimate` adds the
weights that gave it. `curve` turns a posterior into points to draw. Computing one takes long, so it
is done apart from the history (`posterior.ToState`), and once for questions that differ in the
names of values (`alike`).

A question may be read otherwise (`by_method`): by a method of the source paper, or cut at ends that
it is held to lie between.

Which one to call: `posteriors.Posteriors.of`, `posterior.ToState.stated`, then `by_method.read`.
"""
