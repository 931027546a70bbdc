"""What is known about one query, ready to be shown.

Begin with `posterior`: an estimate, the law of its error, and an allowance. `curve` turns it
into points to draw, `positive_prior` takes in that a count is never negative.
"""
