"""PostgreSQL's catalogue of the datasets, as clients read it: relations of public names in DuckDB.

`engine` sends statements to `child`, a process for each connection. There are the relations that
`query.sql.tables.catalogue_relations` has, `functions` as macros over them, and `rewriting` makes
DuckDB's SQL of PostgreSQL's. It holds no number of a dataset, and nothing in it is ever spent.
"""
