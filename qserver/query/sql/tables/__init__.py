"""What a table asks for, and what is to be known of its numbers: lengths, bounds, remarks.

`catalogue` answers what is public of a dataset.
"""
