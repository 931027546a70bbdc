"""The law of a variance that makes an error normal.

A Laplace variable is normal given its variance t, and t is exponential with mean 2. A sum of m of
them, divided by the root of m, is normal given a variance that is a gamma variable of shape m and
mean 2. So one law serves cells of tables and sums of cells alike.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import gammainccinv, gammaincinv

from qserver.inference.arrays import FloatArray

LAPLACE_VARIANCE: Final = 2.0
"""Variance of Lap(1), and mean of t."""
_BELOW, _ABOVE = 5e-8, 4e-18
"""Probabilities that t lies outside the edges: above, the law of an error may be far out."""


def log_edges(counts: FloatArray, n_cells: int) -> FloatArray:
    """Even edges of log t that hold nearly all of its law, shape (n, n_cells + 1).

    Args:
        counts: m of each error, whole and >= 1, shape (n,).
    """
    kinds, which = np.unique(counts, return_inverse=True)
    low = np.log(LAPLACE_VARIANCE * gammaincinv(kinds, _BELOW) / kinds)
    high = np.log(LAPLACE_VARIANCE * gammainccinv(kinds, _ABOVE) / kinds)
    return np.linspace(low, high, n_cells + 1, axis=1)[which.ravel()]


def log_density(logs: FloatArray, counts: FloatArray) -> FloatArray:
    """The logarithm of the density of log t, but for a constant of each count."""
    return np.asarray(counts * (logs - np.exp(logs) / LAPLACE_VARIANCE))
