"""How facts are written in the store: JSON forms, and back.

`records` covers datasets, history and ledger, `requests` what waits for a worker, `jobs` how a
job ended.
"""
