"""The law of an error where all errors follow from one: exact, piece by piece.

With u = offset + slope * t the density of t is exp(-sum_i abs(offset_i + slope_i t)): its logarithm
is linear between the zeros of these terms.
"""

from __future__ import annotations

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.given.known_sums import Reduced
from qserver.inference.given.table_of_law import TableOfLaw

_REACH = 60.0
_N_NODES = 1201
_ROUNDING = 1e-9
_FLAT = 1e-6


def law_on_a_line(known: Reduced) -> TableOfLaw:
    """The law of W less its shift, where the basis has one error."""
    slope = np.append(1.0, known.mixing[:, 0])
    offset = np.append(0.0, known.values)
    zeros = -offset / slope
    places = np.union1d(_around(zeros, np.abs(slope)), zeros)
    logs = -np.abs(offset[:, None] + slope[:, None] * places).sum(axis=0)
    pieces = _pieces(places, logs - logs.max())
    # Outside both ends the density falls off at the rate of all slopes together.
    ends = np.exp((logs - logs.max())[[0, -1]]) / np.abs(slope).sum()
    total = float(pieces.sum() + ends.sum())
    below = np.append(ends[0], ends[0] + np.cumsum(pieces)) / total
    above = np.append(np.cumsum(pieces[::-1])[::-1] + ends[1], ends[1]) / total
    weight = float(known.weights[0])
    if weight < 0.0:
        places, below, above = -places[::-1], above[::-1], below[::-1]
    errors, places = _ROUNDING * np.minimum(below, above), places * abs(weight)
    # Within a piece the mass is nearly even, as pieces are short where there is much of it.
    mean = float(np.diff(below) @ (0.5 * (places[1:] + places[:-1])))
    return TableOfLaw(places, below, above, errors, is_exact_in_tails=True, mean=mean)


def _around(zeros: FloatArray, slopes: FloatArray) -> FloatArray:
    """Places around the median of the law, dense near it."""
    order = np.argsort(zeros)
    # The density is largest where the slopes' sum changes sign: at their weighted median.
    sums = np.cumsum(slopes[order])
    middle = zeros[order][int(np.searchsorted(sums, 0.5 * sums[-1]))]
    steps = np.sinh(np.linspace(-1.0, 1.0, _N_NODES) * np.arcsinh(_REACH))
    return np.asarray(middle + steps / np.sqrt(np.square(slopes).sum()))


def _pieces(places: FloatArray, logs: FloatArray) -> FloatArray:
    """Integrals between places of a density whose logarithm is linear there."""
    steps, rises = np.diff(places), np.diff(logs)
    tops = np.exp(np.maximum(logs[:-1], logs[1:]))
    sizes = np.abs(rises)
    small = sizes < _FLAT
    means = np.where(small, 1.0 - 0.5 * sizes, -np.expm1(-sizes) / np.where(small, 1.0, sizes))
    return np.asarray(steps * tops * means)
