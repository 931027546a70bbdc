"""Measurements to meet a target: the asked row itself, or refined rows.

Refinement lowers the scale b of a row and replaces its noise. `RefinedRow` finds the largest scale
of one row, with the best weights of all others. `WaterFill` keeps the weights A and lowers c_i =
abs(A_i) b_i of every row to at most u_i t, for one level t. With u = 1 only the rows that dominate
the error are refined. With u_i = abs(w_i A_i)^(1/3) the price, the sum of w_i / b_i, is least for
its variance: d/d alpha (w alpha + mu A^2 / alpha^2) = 0. With u = c all rows are refined by one
factor.

A new measurement of the asked row, combined with the history.

With the new row h itself at scale b and weight w, the weights of history give (1 - w) h: the new
row adds one direction, from history's weights to itself. The least alpha is 1 / b for the largest b
whose best weights still meet the target; the half-width grows with b, so b is found by Newton steps
inside a bracket.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qserver.inference.arrays import FloatArray
from qserver.inference.rows.blue import Combinations
from qserver.inference.rows.shortest_interval import Tail, TailProblem, safe_half_width
from qserver.records.privacy.noise_law import GAUSSIAN

_TOLERANCE = 1e-8
_MAX_TRIALS = 60
_LARGEST_LOG = 60.0

Weights = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Combined:
    """A new measurement of a row and the weights that meet a target with it.

    Args:
        alpha: 1 / b of the new measurement, in epsilon per record; 0 where none is needed.
        weights: pairs of a measurement's id and its weight in the history's part.
        new_weight: weight of the new measurement.
    """

    alpha: float
    weights: tuple[tuple[int, float], ...]
    new_weight: float


class ScaleSearch(ABC):
    """The largest scale of one row at which the best weights still meet a target.

    Args:
        confidence: 1 - delta.
        target: half-width to meet, in records.
    """

    def __init__(self, *, confidence: float, target: float) -> None:
        self._confidence = confidence
        self._target = target

    @abstractmethod
    def _problem(self, log_scale: float) -> TailProblem:
        """The problem of all weights if the row has this scale."""

    def _largest_scale(self, alone: FloatArray, *, low: float, high: float, place: int) -> Trial:
        """The best weights at the largest scale, from Newton steps inside a bracket.

        Args:
            alone: the weights that use no other row.
            low: logarithm of a scale at which `alone` meets the target.
            high: logarithm of a scale at which no weights meet it; may be infinite.
            place: the row's place among the scales.
        """
        best = Trial(low, self._problem(low).at(alone), 0.0)
        log_scale, a = low + _TOLERANCE, best.tail.a
        for _ in range(_MAX_TRIALS):
            trial = self._trial(log_scale, a, place)
            excess = trial.tail.half_width - self._target
            step = -excess / max(trial.slope, 1e-300)
            if excess <= 0.0:
                low, best, a = log_scale, trial, trial.tail.a
            else:
                high = log_scale
            if high - low <= _TOLERANCE or low >= _LARGEST_LOG or 0.0 <= step <= _TOLERANCE:
                break
            newton = log_scale + step - 0.5 * _TOLERANCE
            log_scale = newton if low < newton < high else _between(low, high)
            # Where the row hardly matters any more, the next step may lead to any scale.
            log_scale = min(log_scale, _LARGEST_LOG)
        return best

    def _trial(self, log_scale: float, a: FloatArray, place: int) -> Trial:
        problem = self._problem(log_scale)
        tail = problem.best(a)
        return Trial(log_scale, tail, float(problem.slopes(tail.a)[place]))


class CombinedProblem(ScaleSearch):
    """Least alpha of a new row, given ways to estimate it from history.

    Args:
        combinations: unbiased weights of the row on the history.
        confidence: 1 - delta.
        target: half-width to meet, in records.
        step: error of lattice and floats of the new row, per unit of weight.
    """

    def __init__(
        self, combinations: Combinations, *, confidence: float, target: float, step: float
    ) -> None:
        super().__init__(confidence=confidence, target=target)
        self._history = combinations
        self._step = step

    def solve(self) -> Combined | None:
        """The least alpha and its weights; None if a new row cannot meet the target."""
        room = self._target - self._step
        if room <= 0.0:
            return None
        # At this scale the new row alone just meets the target.
        low = math.log(room / safe_half_width(np.ones(1), self._confidence)) - 1e-12
        alone = np.append(np.zeros(self._history.n_directions), 1.0)
        return self._result(self._largest_scale(alone, low=low, high=math.inf, place=-1))

    def _problem(self, log_scale: float) -> TailProblem:
        joint = self._history.with_new_row(scale=math.exp(log_scale), step=self._step)
        return TailProblem(joint, self._confidence)

    def _result(self, best: Trial) -> Combined:
        problem = self._problem(best.log_scale)
        ids, weights = self._history.noise.ids, problem.combinations.weights(best.tail.a)
        pairs = tuple((int(ids[i]), float(weights[i])) for i in np.flatnonzero(weights[:-1]))
        return Combined(math.exp(-best.log_scale), pairs, float(weights[-1]))


@dataclass(frozen=True)
class Trial:
    """The best weights at one scale of the row, and the slope d half-width / d log scale."""

    log_scale: float
    tail: Tail
    slope: float


def least(found: Iterable[Combined | None]) -> Combined | None:
    """The measurement of least alpha, or None."""
    return min((f for f in found if f is not None), key=lambda f: f.alpha, default=None)


def beside(
    weights: Weights, *, scales: FloatArray, room: float, confidence: float, target: float
) -> Combined | None:
    """The least new measurement of a row with Gaussian noise that meets a target with history.

    Weights by precision have least variance: the noises are independent.

    Args:
        weights: history's, of least variance.
        scales: standard deviations of the parts of its error, shape (n,); some > 0.
        room: bound on the lattice's and floats' part of the half-width, in records.

    Returns: None if the target is finer than the lattice.
    """
    law = GAUSSIAN
    noise = (target - room) * _INWARD / safe_half_width(np.ones(1), confidence, law)
    variance = float(np.square(scales).sum())
    if noise <= 0.0 or not noise * noise < variance:
        return None
    precision = 1.0 / (noise * noise) - 1.0 / variance
    share = precision * noise * noise
    old = tuple((i, w * (1.0 - share)) for i, w in weights)
    return Combined(law.charge(precision**-0.5), old, share)


def _between(low: float, high: float) -> float:
    return low + 1.0 if math.isinf(high) else 0.5 * (low + high)


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
    """Fixed weights on rows whose noise may be lowered.

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
