"""SQL: from a text to linear queries, and from their answers to the cells of a table.

Begin with `statement`, the result of reading a text. `tokens` cuts a text, `parser` reads it, and
`cells` makes questions of it and makes cells of their answers.

Expressions of one record become sets of cells: `ranges` has what numbers are on bins, `grid` what
the engine makes of single values, and `periods`, `conditions` and `records` what the rest means.

Call `parser.parse_statement`, unless one count may come as SQL or as JSON: then call
`parser.query_of`.
"""
