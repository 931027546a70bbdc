"""SQL: texts to linear queries, and from their answers to the cells of a table.

Begin with `statement`, the result of reading a text. `tokens` cuts a text, `parser` reads it,
`cells` turns it into questions and turns their answers into cells.

Door: `parser.parse_statement`. Call `queries` where one count may come as SQL or as JSON.
"""
