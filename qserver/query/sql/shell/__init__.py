"""SQL over released numbers: a real engine runs it on references to them.

`record_groups` has the groups of records with their counts and sums. `scopes` writes a SELECT anew,
so that DuckDB joins, windows, groups and orders by what is public, and puts numbers together as
texts; `formulas` reads such a text as a linear combination, a quotient or another function of sums.
So linear numbers stay exact, and no number is needed before it is released. `table` makes the
statement of all that.
"""
