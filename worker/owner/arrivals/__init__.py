"""Data that arrive over time: new periods are sealed, one append after the other.

Begin with `append`. `first` says what a dataset needs to grow, `reading` makes a part of a private
file, and `sealing` carries it to the journal and the store.
"""
