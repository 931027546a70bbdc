"""Codes that stay on the owner's Spark: `coding` makes them once, `tables` counts on them.

`executors` is what runs on Spark's machines. `tables` also
reads their digests back, so that they have the fingerprint that the same records have on one
machine.
"""
