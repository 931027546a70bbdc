"""The steps of a statement measured in several: what to ask next, and the cost of all.

`quantiles` says which counts are measured next for quantiles, extremes and numbers of groups,
`smooth_numbers` what is measured for averages and their kind. `statement` joins them. `quote_cap`
holds them to the quote, and `earlier_steps` says what all of them cost together.
"""
