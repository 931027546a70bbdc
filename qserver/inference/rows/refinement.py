"""Which measured rows to refine, and how far, to meet a target.

Refinement lowers the scale b of a row; its old noise no longer counts. `RefinedRow` finds the
largest scale of one row, with the best weights of all others. `WaterFill` keeps the weights A and
lowers c_i = abs(A_i) b_i of every row to at most u_i t, for one level t. With u = 1 only the rows
that dominate the error are refined. With u_i = abs(w_i A_i)^(1/3) the price, the sum of w_i / b_i,
is least for its variance: d/d alpha (w alpha + mu A^2 / alpha^2) = 0. With u = c all rows are
refined by one factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import FloatArray
from qserver.inference.rows.blue import Combinations
from qserver.inference.rows.own_measurement import ScaleSearch
from qserver.inference.rows.tail import TailProblem, safe_half_width

Weights = tuple[tuple[int, float], ...]

_INWARD = 1.0 - 1e-10
_LEVEL_TOLERANCE = 1e-9
_MARGIN = 40.0
"""Logarithm of a factor above any ratio of a half-width and its largest scale."""


@dataclass(frozen=True)
class Refined:
    """Rows to refine, and weights that meet the target afterwards.

    Args:
        alphas: pairs of a measurement's id and its new 1 / b, in epsilon per record; the id `NEW`
            is a new measurement of the asked row.
        weights: pairs of a measurement's id, or `NEW`, and its weight, none zero.
    """

    alphas: tuple[tuple[int, float], ...]
    weights: Weights


class RefinedRow(ScaleSearch):
    """Least alpha of one measured row, given all ways to use it.

    Args:
        combinations: unbiased weights of the asked row; `row` is one of their rows and alone gives
            the asked row with weight `ratio`.
        row: id of the measurement to refine.
        target: half-width to meet, in records.
    """

    def __init__(
        self,
        combinations: Combinations,
        row: int,
        *,
        ratio: float,
        confidence: float,
        target: float,
    ) -> None:
        super().__init__(confidence=confidence, target=target)
        self._row, self._ratio = row, abs(ratio)
        self._place = int(np.flatnonzero(combinations.noise.ids == row)[0])
        alone = np.zeros(len(combinations.noise.ids))
        alone[self._place] = ratio
        self._combinations = combinations.with_weights(alone)
        self._alone = self._combinations.place_of(alone)
        self._scales = combinations.noise.scales
        self._step = float(combinations.noise.steps[self._place])

    def solve(self) -> Refined | None:
        """The least alpha with its weights; None if the row alone cannot meet the target."""
        room = self._target / self._ratio - self._step
        if room <= 0.0:
            return None
        low = math.log(room / safe_half_width(np.ones(1), self._confidence)) - 1e-12
        high = math.log(self._scales[self._place])
        if low >= high:
            return None
        found = self._largest_scale(self._alone, low=low, high=high, place=self._place)
        weights = self._problem(found.log_scale).combinations.weights(found.tail.a)
        pairs = tuple(
            (int(self._combinations.noise.ids[i]), float(weights[i]))
            for i in np.flatnonzero(weights)
        )
        return Refined(((self._row, math.exp(-found.log_scale)),), pairs)

    def _problem(self, log_scale: float) -> TailProblem:
        scales = self._scales.copy()
        scales[self._place] = math.exp(log_scale)
        return TailProblem(self._combinations.rescaled(scales), self._confidence)


@dataclass(frozen=True)
class WaterFill:
    """Fixed weights on some rows with noise that may be lowered.

    Args:
        ids: measurement ids, shape (n,); `NEW` for a new row.
        weights: A, shape (n,), none zero.
        scales: b, shape (n,); infinite for a new row, 0 for a public one.
        allowance: the part of the half-width for lattice and floats, in records.
    """

    ids: npt.NDArray[np.int64]
    weights: FloatArray
    scales: FloatArray
    allowance: float

    def shapes(self, prices: FloatArray) -> list[FloatArray]:
        """The shapes u to try: the dominating rows alone, and the least price for the variance.

        Args:
            prices: cost of a unit of alpha of each row, shape (n,), > 0.
        """
        sizes = np.abs(self.weights)
        return [np.ones(len(sizes)), np.cbrt(sizes * prices)]

    def solve(self, shape: FloatArray, *, confidence: float, target: float) -> Refined | None:
        """The refinement to the highest level t that meets the target, rows c_i > u_i t; or None.

        Args:
            shape: u, shape (n,), all > 0 and finite.
        """
        room = (target - self.allowance) * _INWARD
        sizes = np.abs(self.weights)
        present = sizes * self.scales
        if room <= 0.0 or not present.any():
            return None

        def excess(log_level: float) -> float:
            capped = np.minimum(present, shape * math.exp(log_level))
            return math.log(safe_half_width(capped, confidence) / room)

        low, high = _bracket(present, shape, room)
        if excess(high) <= 0.0:
            return None
        from scipy.optimize import brentq  # loads long, and not at a start

        level = math.exp(brentq(excess, low, high, xtol=_LEVEL_TOLERANCE) - _LEVEL_TOLERANCE)
        raised = np.flatnonzero(present > shape * level)
        alphas = tuple((int(self.ids[i]), float(sizes[i] / (shape[i] * level))) for i in raised)
        pairs = tuple(zip(self.ids.tolist(), self.weights.tolist(), strict=True))
        return Refined(alphas, pairs)


def _bracket(present: FloatArray, shape: FloatArray, room: float) -> tuple[float, float]:
    """Logarithms of two levels: one certainly meets the target, the other refines no row."""
    new = np.isinf(present)
    low = math.log(room / (float(shape.max()) * len(shape))) - _MARGIN
    tops = np.append(present[~new] / shape[~new], room * math.exp(_MARGIN) / shape[new])
    return low, math.log(max(float(tops.max()), math.exp(low)))
