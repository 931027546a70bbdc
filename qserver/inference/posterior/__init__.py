"""The posterior of one query.

Begin with `posteriors`: the posterior of an estimate, with its statement
(`disagreeing_rows.Stated`). Without disagreements it is an `estimate.Posterior`: an estimate, the
law of its error, and an allowance; else a `disagreeing_rows.GivenPosterior`. `curve` turns a
posterior into points to draw, `simultaneous` is about all numbers of a workload together. Computing
one takes long, so it is done apart from the history (`disagreeing_rows.ToState`), and once for
questions that differ in the names of values (`similar_questions`).

A question may be read otherwise (`method_and_prior`): by a method of the source paper, or cut at
ends that it is assumed to lie between.

Which one to call: `posteriors.Posteriors.of`, `disagreeing_rows.ToState.stated`, then
`method_and_prior.read`; `simultaneous.held_at_once` for many.
"""
