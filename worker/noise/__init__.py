"""Noise: exact integers from the operating system's entropy.

Begin with `mechanism`, the release and its refinement. `randomness` is the only source of
entropy.
"""
