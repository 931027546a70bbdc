"""What a table asks for, and what is to be known of its numbers: units, lengths, bounds, remarks.

A `part` is a table before it is a statement. `catalogue` answers what is public of a dataset.
"""
