"""What a limit bounds: the laws of noise and their losses, and rho as epsilon at a delta.

Begin with `noise_law`.
"""
