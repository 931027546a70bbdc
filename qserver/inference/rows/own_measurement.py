"""A new measurement of the asked row, combined with the history.

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

from qserver.inference.arrays import FloatArray
from qserver.inference.rows.blue import Combinations
from qserver.inference.rows.tail import Tail, TailProblem, safe_half_width

_TOLERANCE = 1e-8
_MAX_TRIALS = 60
_LARGEST_LOG = 60.0


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


def _between(low: float, high: float) -> float:
    return low + 1.0 if math.isinf(high) else 0.5 * (low + high)
