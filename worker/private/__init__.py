"""The private data: read once, coded, counted. Nothing here leaves the worker.

Begin with `tables`, the codes in memory. `read` turns files into codes, `truncation` keeps at
most k records of each person, `registry` is the private folder.
"""
