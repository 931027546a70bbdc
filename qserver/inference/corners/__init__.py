"""The algebra of measured rows: weights of least variance, and how far they are from unbiased.

Begin with `vectors`: a row is a short vector over corners. `base` takes off the rows whose weights
are forced and solves what remains, and `new_rows` takes in rows that come later. `bias` bounds what
floats leave.

Which one to call: `new_rows.GrownRows` for weights, `bias.Bias` for the bound on their bias.
"""
