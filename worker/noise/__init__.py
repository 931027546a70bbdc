"""Noise: exact integers from the operating system's entropy.

Begin with `mechanism`: it releases a new answer, or refines a released one to less noise.
`geometric` has the geometric numbers that noise is made of, drawn for whole arrays. `randomness` is
the only source of entropy.
"""
