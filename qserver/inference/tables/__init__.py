"""Measured tables: answers in closed form from blocks of disjoint cells.

Begin with `measured_tables`: the tables of a history, and estimates from them. `blocks` holds the
algebra of nested partitions, `weights` the sets of weights for a query, and `shared_noise` gives
the joint errors of answers that use the same noise.

Which one to call: `measured_tables.MeasuredTables`, as the engine does.
"""
