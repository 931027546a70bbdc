"""Points that fill a cube evenly: shifted rank-1 lattices, folded.

References:
    Korobov (1959) for the lattices; Hickernell (2002) for the fold, which makes the error of a
    smooth integrand fall nearly with the square of the number of points.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from qserver.inference.arrays import FloatArray

N_SHIFTS: Final = 8
_GENERATORS: Final = {256: 75, 1024: 275, 2048: 797, 4096: 967}
_SEED: Final = 18
_INSIDE: Final = 1e-9

SIZES: Final = tuple(_GENERATORS)
"""Numbers of points per shift that there are lattices for."""


def even_points(size: int, n_axes: int) -> FloatArray:
    """Points in the open cube, shape (8, size, n_axes); always the same.

    Args:
        size: points per shift, one of `SIZES`.
    """
    powers = np.ones(n_axes, dtype=np.int64)
    for i in range(1, n_axes):
        powers[i] = powers[i - 1] * _GENERATORS[size] % size
    lattice = (np.arange(size)[:, None] * powers % size) / size
    shifts = np.random.default_rng(_SEED).random((N_SHIFTS, 1, n_axes))
    folded = 1.0 - np.abs(2.0 * ((lattice + shifts) % 1.0) - 1.0)
    return np.asarray(np.clip(folded, _INSIDE, 1.0 - _INSIDE))
