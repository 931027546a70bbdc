"""Single measured rows: which queries they determine, and with which weights.

Begin with `rows_in_play`: it follows the history and finds all unbiased weights of a query, by the
algebra of `corners`. `blue` holds them, and `shortest_interval` finds those of the shortest
interval.

Which one to call: `rows_in_play.RowsInPlay` for all unbiased weights,
`shortest_interval.TailProblem` for the best of them, and `refinement` for the price of measuring
the row itself or of raising rows that were measured before.
"""
