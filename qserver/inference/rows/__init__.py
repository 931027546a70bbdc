"""Single measured rows: which queries they determine, and with which weights.

Begin with `blue`, the best linear unbiased weights of a query. `estimability` decides exactly
whether a query is determined, `factors` keeps the rows' factors, `tail` searches for the
weights of the shortest interval.

Door: `blue`, unless the same row is measured again: then `own_measurement`.
"""
