"""Questions: a domain, linear queries over it, and their written forms.

Begin with `domain` and `linear_query`: a domain names the attributes and their values, and a linear
query gives every record a weight. `primitive` has the normal form that identifies equal queries.

Doors: `asking.structured_question.parse_query` reads a question of JSON, `sql` reads a statement.
Call `linear_query.linear_query` only if you already have the weights.
"""
