"""Which errors keep their Laplace factors, and what is lost where the others get normal ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.given.known_sums import Reduced
from qserver.inference.given.normal import NormalLaw
from qserver.inference.given.variances import LAPLACE_VARIANCE

_FEW = 14
_FOURTH_CUMULANT = 12.0
_LEAST = 1e-14
_MOST = 30
_SKEWNESS, _KURTOSIS = 0.0665, 0.023
"""Most that a unit of skewness and of excess kurtosis adds to a probability (Edgeworth)."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What errors add to probabilities of W by the shapes of their laws.

    Args:
        of_each: at most, where the error's factor is replaced by a normal one, shape (n,).
        of_rest: the same of all errors that are in `Reduced.rest`, which always are.
    """

    of_each: FloatArray
    of_rest: float

    @classmethod
    def of(cls, known: Reduced, normal: NormalLaw) -> Parts:
        """The parts for one W, given one history."""
        (found,) = cls.of_several(known, normal)
        return found

    @classmethod
    def of_several(cls, known: Reduced, normal: NormalLaw) -> list[Parts]:
        """The parts for one W, given each of several histories that differ in answers alone."""
        covered = np.atleast_2d(normal.given.times(known.weights))
        rest = np.square(known.rest)
        variances = covered @ known.weights + LAPLACE_VARIANCE * rest.sum()
        diagonal = np.maximum(normal.given.diagonal, _LEAST)
        correlation = np.minimum(np.abs(covered) / np.sqrt(diagonal * variances[:, None]), 1.0)
        skewness, kurtosis = normal.shapes
        parts = _SKEWNESS * skewness * correlation**3 + _KURTOSIS * kurtosis * correlation**4
        of_rest = _KURTOSIS * _FOURTH_CUMULANT * np.square(rest).sum() / np.square(variances)
        return [cls(*one) for one in zip(parts, of_rest.tolist(), strict=True)]

    def in_order(self, left_out: float) -> tuple[Places, float]:
        """The errors that bear most on the shape of the law, and what the others add to it.

        As many as it takes to leave out no more than that, the one that bears most first.
        """
        order = np.argsort(-self.of_each, kind="stable")
        left = np.append(np.cumsum(self.of_each[order][::-1])[::-1], 0.0)
        n_used = min(_MOST, max(1, int(np.count_nonzero(left > left_out))))
        return order[:n_used], float(left[n_used])

    def that_matter(self, left_out: float) -> tuple[Places, float]:
        """The errors that keep their factors, and the error that is made with the others.

        All errors if they are few; else those that bear most on the shape of the law, as many as it
        takes to leave out no more than that.
        """
        n = len(self.of_each)
        if n <= _FEW:
            return np.arange(n), self.of_rest
        order, left = self.in_order(left_out)
        return np.sort(order), left + self.of_rest

    def without(self, numbers: npt.NDArray[np.intp]) -> float:
        """The error that is made if only these keep their factors."""
        return float(np.delete(self.of_each, numbers).sum()) + self.of_rest

    def or_more(self, other: Parts) -> Parts:
        """The larger parts of two."""
        return Parts(np.maximum(self.of_each, other.of_each), max(self.of_rest, other.of_rest))
