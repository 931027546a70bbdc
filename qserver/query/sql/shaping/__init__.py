"""The shape of a statement's table: its items, its groups, their order, and which are shown.

`items` names what SELECT lists. `groups` reads GROUP BY.
`reading` reads HAVING, ORDER BY and LIMIT. `layout` says which groups are measured, and `shape`
orders and cuts a table whose numbers were released.
"""
