"""The JSON forms of facts in the store, to write and to read.

`queued_requests` has questions and reservations. `jobs` has the answers of jobs, released answers
and weights. Installed servers hold these texts, so they stay byte for byte.
"""
