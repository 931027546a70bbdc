"""Statements with a SELECT of groups behind IN: its numbers are asked first, then the rest.

`parts` has the statements that such a one is made of, and what they cost; `choices` what the
released numbers tell of the groups, and the table that allows for all that they leave possible.
`statements` asks for it.
"""
