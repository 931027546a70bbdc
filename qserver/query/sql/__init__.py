"""SQL: texts to linear queries, and from their answers to the cells of a table."""
