"""The algebra of measured rows: weights of least variance, and how far they are from unbiased.

Begin with `vectors`: a row is a short vector over corners. `peeling` takes off the rows whose
weights are forced, `core` solves what remains, `base` does both for a fixed set of rows, and
`grown` takes in rows that come later. `settle` and `bias` bound what floats leave.

Which one to call: `grown.GrownRows` for weights, `bias.Bias` for the bound on their bias.
"""
