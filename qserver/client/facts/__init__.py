"""What a client may look up without asking anything new; nothing here spends.

`requests` makes the exchanges: budget, history, jobs and posteriors. `results` and `posterior` have
what they give, `statement` the law that a number is a statement of.
"""
