"""The seal of a dataset: its sorted codes in the worker's folder, the data that are counted."""
