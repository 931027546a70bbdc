"""What can be told of a text of SQL without a parser: what it reads, and where parameters stand.

A client needs no more than this, and so none of the packages that the server parses with.
"""
