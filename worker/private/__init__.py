"""The private data: read once, coded, counted. Nothing here leaves the worker.

Begin with `record_tables`, the codes in memory and their counts. `snapshot` reads a source and
seals its codes by `seal_file`, `truncation` keeps at most k records of each person, and `registry`
is the private folder. `spark` leaves the codes on the owner's Spark, and `present_content` chooses
between the two.
"""
