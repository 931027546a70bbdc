"""Noise: exact integers from the operating system's entropy.

Begin with `mechanism`: call `release` for a new answer and `release_refined` for a less noisy one.
`randomness` is the only source of entropy.
"""
