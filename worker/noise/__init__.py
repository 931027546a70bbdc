"""Noise: exact integers from the operating system's entropy.

Begin with `mechanism`: it releases a new answer, or refines a released one to less noise.
`randomness` is the only source of entropy.
"""
