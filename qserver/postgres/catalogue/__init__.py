"""PostgreSQL's catalogue of the datasets, as clients read it: tables of public names in memory.

`schema` has its tables, `contents` their rows and `functions` what may be called. `rewriting`
makes SQLite's SQL of PostgreSQL's, `typing` finds the types of a result, and `engine` runs it. It
holds no number of a dataset, and nothing in it is ever spent.
"""
