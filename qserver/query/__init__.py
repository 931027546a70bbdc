"""What can be asked: a domain, linear queries over it, and the forms in which people write them.

Begin with `domain` and `linear_query`: a domain names the attributes and their values, and a linear
query gives every record a weight. `primitive` holds the normal form by which equal queries are
found.

Doors: `asking.structured_question.parse_query` reads a question of JSON, `sql` reads a statement.
Call `linear_query.linear_query` only when the weights are at hand already.
"""
