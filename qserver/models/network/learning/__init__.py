"""Learning a network's parameters from noisy tables.

Begin with `allocations`: the prices of tables, and the parameters from them. It and `paper_methods`
decide which tables are measured and how exactly. `estimation` turns noisy tables
into parameters. `paper_methods` also makes tables agree as the papers print it.

Which one to call: `allocations.one_step_prices` before data is read and
`allocations.one_step_network` after; the "best" allocation unless another is to be compared.
"""
