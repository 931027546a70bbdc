"""Data that arrive over time: new periods are sealed, one append after another.

Begin with `sealing`, which carries a part to the journal and the store, also the first one of a
dataset. `part` makes a part of a private file.
"""
