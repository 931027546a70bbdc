"""The JSON forms of facts in the store, to write and to read.

`records` has released answers and weights, `requests` has questions and reservations, and `jobs`
has the answers of jobs. Installed servers hold these texts, so they stay byte for byte.
"""
