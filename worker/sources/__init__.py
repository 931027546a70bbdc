"""Where an owner's data lie: each module reads one kind of source as Arrow record batches.

`address` says what the owner typed, `kinds` opens it, and `source` is the face that all kinds
have. A source is read once, in one consistent read; what follows works on what was kept of it.
"""
