"""Both tails of a law at some places, and the masses between places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qserver.inference.arrays import FloatArray

_ROUNDING = 1e-9
"""Bound on the relative error of the nearer tail, far above that of the evaluator."""


@dataclass(frozen=True, eq=False)
class Tails:
    """P(X <= x) and P(X > x) at some places, arrays of shape (m,).

    Args:
        below, above: the probabilities, the smaller of the two with all its digits.
        error: bound on the numerical error of both.
        most_below, most_above: upper bounds, which may be closer than `error` says.
    """

    below: FloatArray
    above: FloatArray
    error: FloatArray
    most_below: FloatArray
    most_above: FloatArray

    @classmethod
    def by_nearer(cls, nearer: FloatArray, *, is_low: np.ndarray) -> Tails:
        """The tails of an exact law.

        Args:
            nearer: the smaller tail at each place.
            is_low: whether that is the lower one, shape (m,).
        """
        error = _ROUNDING * nearer
        below, above = (
            np.where(is_low, nearer, 1.0 - nearer),
            np.where(is_low, 1.0 - nearer, nearer),
        )
        return cls(below, above, error, below + error, above + error)

    @property
    def mirrored(self) -> Tails:
        """The tails of -X at the same places with the other sign."""
        return Tails(self.above, self.below, self.error, self.most_above, self.most_below)


def mass_between(low: Tails, high: Tails) -> FloatArray:
    """P(low < X <= high), by the nearer tail; broadcasts."""
    upper, lower = low.above - high.above, high.below - low.below
    middle = 1.0 - low.below - high.above
    found = np.where(low.above < 0.5, upper, np.where(high.below < 0.5, lower, middle))
    return np.asarray(np.maximum(found, 0.0))
