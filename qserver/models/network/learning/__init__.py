"""Learning a network's parameters from noisy tables.

Begin with `learn`, which joins the stages. `table_choice` and `paper_allocation` decide which
tables are measured and how exactly. `estimation` turns noisy tables into parameters.
`paper_consistency` makes tables agree as the papers print it.

Which one to call: `learn.learn` with the "best" allocation; the others are for comparison.
"""
