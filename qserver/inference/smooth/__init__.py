"""Smooth functions of noisy sums: averages, shares, growths, indices, deviations, correlations.

Begin with `number`: a function of a few sums, its asked exactness, and its interval from draws.
`part_law` has the joint law of these sums' errors given all released answers, and draws from it.
`search` chooses the next measurement, and when to stop. All of it depends on released answers and
public facts alone.

Which one to call: `number.look` for an interval, `search.next_widths` for the next step,
`search.widths_at_most` for the quote.
"""
