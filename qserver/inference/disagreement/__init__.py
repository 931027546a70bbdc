"""The law of an error given the public disagreements of dependent rows.

Begin with `known_sums`: what is known of the errors, for many questions with their estimates
(`known_sums.Together`). `law_by_cheapest_method` computes the law: exactly where all errors follow
from one, else as a `mixture` of normal laws, by nodes where few errors matter and by evenly filling
points where more do, on the ground of normal factors (`normal_law_given_sums`); many normal laws
are added up as fewer (`normal_laws_on_grid`). The result is a `table_of_law`. A `gibbs_sampler`
draws many errors together.

Which one to call: `law_by_cheapest_method.law_given` for one error,
`law_by_cheapest_method.laws_given` for histories that differ in answers alone,
`gibbs_sampler.farthest_off` or `gibbs_sampler.drawn_errors` for many errors together.
"""
