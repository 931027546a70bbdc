"""Smooth functions of noisy sums: averages, shares, growths, indices, deviations, correlations.

Begin with `number`: what is asked, a function of a few sums and how exact it shall be, and its
interval from draws. `part_law` has the law of the errors of these sums, given all that was
released, and draws from it. `search` says what to measure next, and when nothing more is worth
measuring. All of it depends on released answers and public facts alone.

Which one to call: `number.look` for an interval, `search.next_widths` for the next step,
`search.widths_at_most` for what is quoted.
"""
