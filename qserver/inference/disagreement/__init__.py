"""The law of an error given the public disagreements of dependent rows.

Begin with `known_sums`: what is known of the errors, for many questions with their estimates
(`known_sums.Together`). `error_law` computes the law: exactly where all errors follow from one,
else as a `mixture` of normal laws, by nodes where few errors matter and by evenly filling points
where more do, on the ground of normal factors (`known_sums.normal_law`). The result is a
`table_of_law`. Of many errors together draws are made by a `gibbs_sampler`.

Which one to call: `error_law.law_given` for one error, `error_law.laws_given` for histories that
differ in answers alone, `gibbs_sampler.farthest_off` or `gibbs_sampler.drawn_errors` for many
together.
"""
