"""Many weighted normal laws as fewer, on a grid of deviations and means.

P(W <= x) of a normal law is smooth in its mean and in the logarithm of its deviation. So it is
interpolated between laws on a grid, by polynomials through six of them each way. The distances of
the grid are parts of the deviation. Each law's weight is shared among 36 of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import FloatArray, Places

_AROUND: Final = 6
_BEFORE: Final = 2
_OF_MEANS, _OF_LOGS = 0.3, 0.15
"""Distances of means, in deviations, and of logarithms of deviations."""
OFF: Final = 1.7e-5
"""Most that a probability is off by. A polynomial through six places of distance h is off by at
most h^6 3.52 / 720 times the greatest sixth derivative: 2.31 along means, 100 along logarithms of
deviations. That is 8.2e-6 and 5.6e-6, of which the first may grow by 1.4, the greatest sum of the
absolute weights of places."""
_NARROW, _FEW = 1.0 / 16.0, 1_000
"""Part of the laws with the least deviations, which would need most of the grid; and number of laws
that are quicker as they are."""
_POWERS = np.arange(_AROUND)
_TO_SHARES = np.linalg.inv((_POWERS - _BEFORE)[None, :] ** _POWERS[:, None].astype(np.float64))


@dataclass(frozen=True, eq=False)
class Normals:
    """Normal laws and their weights in several sums.

    Args:
        means, deviations: shape (n,).
        weights: shape (n, k).
    """

    means: FloatArray
    deviations: FloatArray
    weights: FloatArray

    def some(self, chosen: npt.NDArray[np.bool_]) -> Normals:
        """Some of the laws."""
        return Normals(self.means[chosen], self.deviations[chosen], self.weights[chosen])


def on_grid(normals: Normals, sums: Places) -> list[Normals]:
    """Fewer laws with nearly the same sums of probabilities; the same ones if they are few.

    Args:
        sums: the one sum in which each law has weight, shape (n,).
    """
    if len(normals.means) < _FEW:
        return [normals]
    least = float(np.quantile(normals.deviations, _NARROW))
    if not least > 0.0:
        return [normals]
    is_narrow = normals.deviations < least
    return [normals.some(is_narrow), _gridded(normals.some(~is_narrow), sums[~is_narrow])]


def _gridded(normals: Normals, sums: Places) -> Normals:
    means, k = normals.means, normals.weights.shape[1]
    levels = np.log(normals.deviations) / _OF_LOGS
    lowest = np.floor(levels.min()) - _BEFORE
    first = np.floor(levels).astype(np.intp) - _BEFORE - int(lowest)
    deviations = np.exp((lowest + np.arange(first.max() + _AROUND)) * _OF_LOGS)
    units, low = _OF_MEANS * deviations, float(means.min())
    n_means = np.floor((means.max() - low) / units).astype(np.intp) + _AROUND
    n, starts = int(n_means.sum()), np.cumsum(n_means) - n_means
    if n >= len(means):
        return normals
    of_levels = _shares(levels - lowest - first - _BEFORE)
    of_levels *= normals.weights[np.arange(len(means)), sums][:, None]
    found = np.zeros(n * k)
    for i in range(_AROUND):
        level = first + i
        place = (means - low) / units[level]
        begin = np.floor(place).astype(np.intp)
        shares = _shares(place - begin) * of_levels[:, i, None]
        index = ((starts[level] + begin)[:, None] + _POWERS) * k + sums[:, None]
        found += np.bincount(index.ravel(), weights=shares.ravel(), minlength=n * k)
    weights, of_level = found.reshape(n, k), np.repeat(np.arange(len(units)), n_means)
    places = np.arange(n) - starts[of_level] - _BEFORE
    used = np.asarray(weights.any(axis=1))
    return Normals(low + places * units[of_level], deviations[of_level], weights).some(used)


def _shares(parts: FloatArray) -> FloatArray:
    """Weights of six even places, the third of which is just below; shape (n, 6)."""
    return np.asarray(parts[:, None] ** _POWERS @ _TO_SHARES.T)
