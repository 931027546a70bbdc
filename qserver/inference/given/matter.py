"""Which errors keep their Laplace factors, and what is lost where the others get normal ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import FloatArray
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
        """The parts for one W."""
        covered = normal.given.times(known.weights)
        rest = np.square(known.rest)
        variance = float(known.weights @ covered) + LAPLACE_VARIANCE * float(rest.sum())
        spread = np.sqrt(np.maximum(normal.given.diagonal, _LEAST) * variance)
        correlation = np.minimum(np.abs(covered) / spread, 1.0)
        skewness, kurtosis = normal.shapes
        return cls(
            _SKEWNESS * skewness * correlation**3 + _KURTOSIS * kurtosis * correlation**4,
            _KURTOSIS * _FOURTH_CUMULANT * float(np.square(rest).sum()) / variance**2,
        )

    def that_matter(self, left_out: float) -> tuple[npt.NDArray[np.intp], float]:
        """The errors that keep their factors, and the error that is made with the others.

        All errors if they are few; else those that bear most on the shape of the law, as many as it
        takes to leave out no more than that.
        """
        n = len(self.of_each)
        if n <= _FEW:
            return np.arange(n), self.of_rest
        order = np.argsort(-self.of_each, kind="stable")
        left = np.append(np.cumsum(self.of_each[order][::-1])[::-1], 0.0)
        n_used = min(_MOST, max(1, int(np.count_nonzero(left > left_out))))
        return np.sort(order[:n_used]), float(left[n_used]) + self.of_rest

    def without(self, numbers: npt.NDArray[np.intp]) -> float:
        """The error that is made if only these keep their factors."""
        return float(np.delete(self.of_each, numbers).sum()) + self.of_rest

    def or_more(self, other: Parts) -> Parts:
        """The larger parts of two."""
        return Parts(np.maximum(self.of_each, other.of_each), max(self.of_rest, other.of_rest))
