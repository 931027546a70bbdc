"""Which errors count as normal, and what that adds to a probability at most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.disagreement.known_sums import Reduced
from qserver.inference.disagreement.normal_law_given_sums import LAPLACE_VARIANCE, NormalLaw

FEW = 14
"""So few errors all keep their law."""
_FOURTH_CUMULANT = 12.0
_LEAST, _DIGITS = 1e-14, 9
_MOST = 30
"""Most errors that keep their law; the others count as normal."""
_SKEWNESS, _KURTOSIS = 0.0665, 0.023
"""Most that a unit of skewness and of excess kurtosis adds to a probability (Edgeworth)."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Effects of the shapes of errors' laws on probabilities of W.

    Args:
        of_each: bound on the effect of a normal factor in place of the error's, shape (n,).
        of_rest: the same for all errors of `Reduced.rest`, which always count as normal.
    """

    of_each: FloatArray
    of_rest: float

    @classmethod
    def of_several(cls, known: Reduced, normal: NormalLaw) -> list[Parts]:
        """The parts for one W, under each of several histories that differ only in answers."""
        covered = np.atleast_2d(normal.times(known.weights))
        rest = np.square(known.rest)
        variances = covered @ known.weights + LAPLACE_VARIANCE * rest.sum()
        diagonal = np.maximum(normal.diagonal, _LEAST)
        correlation = np.minimum(np.abs(covered) / np.sqrt(diagonal * variances[:, None]), 1.0)
        skewness, kurtosis = normal.shapes
        parts = _SKEWNESS * skewness * correlation**3 + _KURTOSIS * kurtosis * correlation**4
        of_rest = _KURTOSIS * _FOURTH_CUMULANT * np.square(rest).sum() / np.square(variances)
        return [cls(*one) for one in zip(parts, of_rest.tolist(), strict=True)]

    @property
    def are_few(self) -> bool:
        """Whether the errors are so few that all keep their law."""
        return len(self.of_each) <= FEW

    def in_order(self, left_out: float) -> tuple[Places, float]:
        """The errors with the largest effect on the shape, largest first.

        Also returns the effect of the others, at most `left_out` unless too many matter.
        """
        order = self._largest_first
        left = np.append(np.cumsum(self.of_each[order][::-1])[::-1], 0.0)
        n_used = min(_MOST, max(1, int(np.count_nonzero(left > left_out))))
        return order[:n_used], float(left[n_used])

    def that_matter(self, left_out: float) -> tuple[Places, float]:
        """The errors that keep their factors, and the effect of treating the others as normal.

        All errors if they are few; else those of `in_order`. The largest effects come first: even
        points are most even along their first axes.
        """
        if self.are_few:
            return self._largest_first, self.of_rest
        order, left = self.in_order(left_out)
        return order, left + self.of_rest

    @property
    def _largest_first(self) -> Places:
        # What differs by rounding alone stays in order: others draw the same points.
        sizes = np.round(self.of_each / max(self.of_each.max(initial=0.0), _LEAST), _DIGITS)
        return np.argsort(-sizes, kind="stable")
