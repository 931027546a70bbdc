"""Measured tables: answers in closed form from blocks of disjoint cells.

Begin with `tables`, the tables of a history and what they say of a query. `blocks` holds the
algebra of nested partitions, `choices` picks among several sets of weights, `shared_noise`
serves answers that use the same noise.

Door: `tables.MeasuredTables`; the engine calls it.
"""
