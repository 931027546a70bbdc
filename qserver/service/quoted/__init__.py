"""What a statement of SQL was quoted, and what is noted of it so that it is never charged more.

`notes` keeps what is left of a quote, and how a statement was answered. `capped` takes the steps.
"""
