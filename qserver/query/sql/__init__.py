"""SQL: from a text to linear queries, and from their answers to the cells of a table.

Begin with `statement`, the result of reading a text. `tokens` cuts a text, `parser` reads it, and
`cells` makes questions of it and makes cells of their answers.

Expressions of one record become sets of cells, by `values`, `conditions` and `aggregates`.

Call `parser.parse_statement`, unless one count may come as SQL or as JSON: then call
`parser.query_of`.
"""
