"""The engine: DuckDB evaluates expressions over public tables, in a process of its own.

Call `run.run`. `allow_list` has what a statement may hold, and `child` is the program of the other
process. No record of a dataset ever gets here: what is evaluated are values that a domain has, and
numbers that are released.
"""
