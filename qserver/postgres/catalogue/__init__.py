"""PostgreSQL's catalogue of the datasets, as clients read it: tables of public names in memory.

`contents` has its tables and their rows, and `functions` what may be called. `rewriting` makes
SQLite's SQL of PostgreSQL's, and `engine` runs it and finds the types of a result. It holds no
number of a dataset, and nothing in it is ever spent.
"""
