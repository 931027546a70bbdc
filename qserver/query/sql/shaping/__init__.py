"""The shape of a statement's table: its items, its groups, their order, and which are shown.

`items` names what SELECT lists, and `groups` reads GROUP BY. `having` reads HAVING and LIMIT, and
`shape` orders and cuts a table whose numbers were released. `ranks` has RANK with its intervals,
and `rounding` rounds numbers and their ends.
"""
