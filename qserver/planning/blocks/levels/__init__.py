"""Levels of attributes that are learnt from questions, so that parts end where questions do.

`learner` chooses the lattice to plan on.
"""
