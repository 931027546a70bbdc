"""The engine: DuckDB evaluates expressions over public tables, in a separate process.

Call `run.run`. `allow_list` limits statements, and `child` is the program of the process. No record
of a dataset gets here: only values of a domain and released numbers are evaluated.
"""
