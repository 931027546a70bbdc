"""The posterior of a query that is known to lie between two ends.

With a flat prior between the ends the posterior is the law without them, cut there and divided by
what is left. That is a Bayesian statement, and no frequency over repeated noise. The cut law is
log-concave like the whole one, so its shortest interval is one interval, which may begin or end at
a cut. Numerical errors of the whole law are divided by what is left as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.tails import Tails, mass_between
from qserver.inference.posterior.interval import CredibleInterval

LEAST_LEFT = 1e-12
_N_PLACES = 240
_CLUSTERING = 4.0
_N_HALVINGS = 45


class WholeLaw(Protocol):
    """A posterior that can be cut."""

    @property
    def allowance(self) -> float:
        """Bound on the error that lattice and floats add."""

    @property
    def estimate(self) -> float:
        """The middle of the law."""

    def span(self, probability: float) -> CredibleInterval:
        """Ends that are passed with about this probability."""

    def tails(self, values: FloatArray) -> Tails:
        """The tails at values of the query."""


class ContradictedPriorError(InputError):
    """The released answers leave next to nothing between the ends of a prior."""

    def __init__(self) -> None:
        super().__init__(
            "prior",
            f"leave a probability of at least {LEAST_LEFT:g}",
            hint="The released answers contradict it.",
        )


@dataclass(frozen=True, eq=False)
class _Grid:
    """Masses of the cut law at rising places, arrays of shape (m,), and bounds on them."""

    places: FloatArray
    left: FloatArray
    right: FloatArray
    most_left: FloatArray
    most_right: FloatArray


@dataclass(frozen=True, eq=False)
class CutPosterior:
    """A posterior cut at one end or at both.

    Args:
        whole: the posterior without the ends.
        low, high: the ends, in the query's units; one may be infinite.

    Raises:
        ContradictedPriorError: the ends leave a probability below 1e-12.
    """

    whole: WholeLaw
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and self._left_over >= LEAST_LEFT):
            raise ContradictedPriorError

    @property
    def estimate(self) -> float:
        """The cut law's mean."""
        grid = self._grid
        # P(q > x) over all x, by trapezoids with the correction for the slopes at their ends.
        slopes, lengths = np.gradient(grid.right, grid.places), np.diff(grid.places)
        corrections = np.square(lengths) * np.diff(slopes) / 12.0
        area = np.trapezoid(grid.right, grid.places) - corrections.sum()
        return float(grid.places[0] + area)

    @property
    def error(self) -> float:
        """Bound on the numerical error of a probability; infinite if nothing is known."""
        if self._least_left_over <= 0.0:
            return math.inf
        grid = self._grid
        off = np.maximum(grid.most_left - grid.left, grid.most_right - grid.right)
        return float(off.max())

    def interval(self, confidence: float) -> CredibleInterval:
        """The shortest interval at `confidence`; numerical errors and the allowance widen it."""
        tail = 1.0 - confidence
        # One that begins at a place and ends where it must, or the other way round.
        upward, downward = self._upward(tail), self._downward(tail)
        best = min(upward, downward, key=lambda ends: ends.high - ends.low)
        allowance = self.whole.allowance
        return CredibleInterval(
            low=max(self.low, math.nextafter(best.low - allowance, -math.inf)),
            high=min(self.high, math.nextafter(best.high + allowance, math.inf)),
        )

    def confidence_of(self, half_width: float) -> float:
        """Confidence of the best interval twice as long as this, rounded down."""
        length = 2.0 * (half_width - self.whole.allowance)
        if length <= 0.0:
            return 0.0
        grid = self._grid
        # One that ends at the upper cut begins at no place.
        starts = np.append(grid.places, max(self.low, grid.places[-1] - length))
        outside = np.interp(starts, grid.places, grid.most_left)
        outside += np.interp(starts + length, grid.places, grid.most_right)
        low = float(starts[int(np.argmin(outside))])
        # Between places the outside was only about known.
        tails = self.whole.tails(np.array([low, low + length]))
        below, above = self._most_left(tails)[0], self._most_right(tails)[1]
        below = 0.0 if low <= self.low else below
        above = 0.0 if low + length >= self.high else above
        return float(max(0.0, 1.0 - below - above))

    def probability_at_least(self, threshold: float) -> float:
        """P(q >= threshold)."""
        return self.probability_between(threshold, math.inf)

    def probability_between(self, low: float, high: float) -> float:
        """P(low <= q <= high); 0 if high < low."""
        low, high = max(low, self.low), min(high, self.high)
        if not low < high:
            return 0.0
        found = self.whole.tails(np.array([low, high]))
        return min(1.0, float(mass_between(_at(found, 0), _at(found, 1))) / self._left_over)

    def _upward(self, tail: float) -> CredibleInterval:
        grid = self._grid
        start = _best_start(grid.places, grid.most_left, grid.most_right, tail)
        room = tail - float(grid.most_left[start])

        def fits(high: float) -> bool:
            return bool(self._most_right(self.whole.tails(np.array([high])))[0] <= room)

        low = float(grid.places[start])
        return CredibleInterval(low, _last_that_fits(float(grid.places[-1]), low, fits))

    def _downward(self, tail: float) -> CredibleInterval:
        grid = self._grid
        backward = -grid.places[::-1], grid.most_right[::-1], grid.most_left[::-1]
        start = len(grid.places) - 1 - _best_start(*backward, tail)
        room = tail - float(grid.most_right[start])

        def fits(low: float) -> bool:
            return bool(self._most_left(self.whole.tails(np.array([low])))[0] <= room)

        high = float(grid.places[start])
        return CredibleInterval(_last_that_fits(float(grid.places[0]), high, fits), high)

    @cached_property
    def _cuts(self) -> tuple[Tails, Tails]:
        found = self.whole.tails(np.array([self.low, self.high]))
        return _at(found, 0), _at(found, 1)

    @cached_property
    def _left_over(self) -> float:
        """The whole law's probability between the ends."""
        return float(mass_between(*self._cuts))

    @property
    def _least_left_over(self) -> float:
        low, high = self._cuts
        return self._left_over - float(low.error + high.error)

    def _most_left(self, tails: Tails) -> FloatArray:
        """Upper bounds of the cut law's probability below places."""
        return self._most(tails, self._cuts[0])

    def _most_right(self, tails: Tails) -> FloatArray:
        return self._most(tails.mirrored, self._cuts[1].mirrored)

    def _most(self, tails: Tails, cut: Tails) -> FloatArray:
        """Upper bounds of the mass between a cut and places above it, divided by what is left."""
        by_errors = mass_between(cut, tails) + tails.error + cut.error
        by_tail = tails.most_below - np.maximum(0.0, cut.below - cut.error)
        found = np.maximum(0.0, np.minimum(by_errors, by_tail))
        return np.asarray(np.minimum(1.0, found / self._least_left_over))

    @cached_property
    def _grid(self) -> _Grid:
        places = self._places()
        tails = self.whole.tails(places)
        most_left, most_right = self._most_left(tails), self._most_right(tails)
        low, high = self._cuts
        # Nothing lies beyond a cut, whatever the errors are.
        most_left[places <= self.low] = 0.0
        most_right[places >= self.high] = 0.0
        return _Grid(
            places,
            np.minimum(1.0, mass_between(low, tails) / self._left_over),
            np.minimum(1.0, mass_between(tails, high) / self._left_over),
            np.maximum.accumulate(most_left),
            np.maximum.accumulate(most_right[::-1])[::-1],
        )

    def _places(self) -> FloatArray:
        """Places over all that matters, dense where the density is largest."""
        around = self.whole.span(1e-3 * LEAST_LEFT * self._left_over)
        low, high = max(self.low, around.low), min(self.high, around.high)
        top = min(max(self.whole.estimate, low), high)
        steps = np.sinh(np.linspace(0.0, _CLUSTERING, _N_PLACES)) / math.sinh(_CLUSTERING)
        return np.unique(np.append(top - (top - low) * steps, top + (high - top) * steps))


def _best_start(places: FloatArray, before: FloatArray, after: FloatArray, tail: float) -> int:
    """The place at which the shortest interval begins, nearly.

    Args:
        before, after: masses below and above each place.
        tail: mass that may be outside.
    """
    starts = np.flatnonzero(before < tail)
    if not len(starts):
        return 0
    ends = np.interp(tail - before[starts], after[::-1], places[::-1])
    return int(starts[np.argmin(ends - places[starts])])


def _last_that_fits(good: float, bad: float, fits: Callable[[float], bool]) -> float:
    """The place nearest to `bad` that fits, by halving."""
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (good + bad)
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good


def _at(tails: Tails, i: int) -> Tails:
    """The tails at one place, as arrays without axes."""
    return Tails(
        tails.below[i], tails.above[i], tails.error[i], tails.most_below[i], tails.most_above[i]
    )
