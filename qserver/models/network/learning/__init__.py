"""Learning a network's parameters from noisy tables.

Begin with `learn`, which puts the stages together: `paper_allocation` and `table_choice` decide
what is measured and how exactly, `estimation` turns noisy tables into parameters, `consistency`
makes tables agree on what they share.
"""
