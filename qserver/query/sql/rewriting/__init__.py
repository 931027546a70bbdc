"""From SQL as tools write it to one SELECT from a dataset, or several that UNION ALL joins.

`written` notes how each item is written. `subselects` puts WITH and SELECT in parentheses into the
SELECT that reads them, or into `counted` where that counts their groups. `tidy` leaves out what
changes no value. `sets` lists the groups of ROLLUP and its like, and `union` the parts of a
UNION ALL.
"""
