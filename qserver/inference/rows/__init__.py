"""Single measured rows: which queries they determine, and with which weights.

Begin with `blue`: the best linear unbiased weights of a query. `estimability` decides exactly
whether the rows determine a query, `factored_rows` holds the rows as products of vectors, and
`tail` finds the weights of the shortest interval.

Which one to call: `rows_in_play.RowsInPlay` for all unbiased weights, `tail.TailProblem` for the
best of them, `own_measurement` for the price of measuring the row itself, and `refinement` for
raising rows that were measured before.
"""
