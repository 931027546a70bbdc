"""The posterior of one query.

Begin with `posteriors`: the posterior of an estimate, with what it is a statement of
(`given_posterior.Stated`). Where nothing disagrees it is an `estimate.Posterior`: an estimate, the
law of its error, and an allowance; else a `given_posterior.GivenPosterior`. `curve` turns a
posterior into points to draw, `at_once` is about all numbers of a workload together. Computing one
takes long, so it is done apart from the history (`given_posterior.ToState`), and once for questions
that differ in the names of values (`alike`).

A question may be read otherwise (`by_method`): by a method of the source paper, or cut at ends that
it is held to lie between.

Which one to call: `posteriors.Posteriors.of`, `given_posterior.ToState.stated`, then
`by_method.read`; `at_once.held_at_once` for many.
"""
