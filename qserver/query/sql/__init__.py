"""SQL: from a text to linear queries, and from their answers to a table's cells.

Begin with `statement`, the result of reading a text. `tokens` cuts a text, `parser` reads it, and
`cells` makes questions of it and makes cells of their answers.

Expressions of one record become sets of cells, by `values`, `conditions` and `aggregates`.

Call `parser.parse_statement`, or `parser.query_of` for one count in SQL or JSON.
"""
