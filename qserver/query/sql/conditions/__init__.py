"""Conditions of a text of SQL, with three truth values.

`truth` has the rules of true, false and unknown, `branches` reads CASE and COALESCE, and
`predicates` turns conditions into sets of cells.
"""
