"""A posterior read by a method of the source paper, and under a prior.

Both algorithms compute P(abs(W) > h), and W is symmetric, so that a tail has half of it and half
its error. Draws are seeded by the scales alone, which are public: the same law is the same table
for ever.

*A prior with two ends.* With a flat prior between the ends the posterior is the law without them,
truncated and divided by the mass left.

That is a Bayesian statement, not a frequency over repeated noise. The cut law is log-concave like
the whole one, so its shortest interval is one interval, which may begin or end at a cut. Numerical
errors of the whole law are divided by that mass as well.

References:
    Xiao and Xiong (2012), algorithms 1 (Monte Carlo) and 2 (probability calculation). The narrowest
    interval is their algorithm 3, which `TableOfLaw` carries out on a symmetric law.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.disagreement.table_of_law import TableOfLaw
from qserver.inference.estimate import CredibleInterval, Posterior
from qserver.inference.law.evaluator import Tails, mass_between
from qserver.inference.law.paper_methods import LatticeMasses, MonteCarlo, lattice_error
from qserver.inference.posterior.disagreeing_rows import AnyPosterior, GivenPosterior, Stated
from qserver.query.asking.method_and_prior import LEAST_DRAWS, MOST_DRAWS, Prior, Reading
from qserver.records.statement import Statement

FAILURE: Final = 1e-9
"""Probability, over the draws, that the stated error of Monte Carlo does not hold."""
_ROUGHEST = 0.02
"""Largest error of a lattice, whatever step was asked for."""
_PART = 0.125
"""Part of the wanted error that a lattice may have: finer ones cost little."""
_PART_OF_DRAWS = 0.92
"""Part of the wanted error that draws may have: places are some draws apart."""
_MOST_POINTS: Final = 1 << 21
_FINEST, _COARSEST = 4096.0, 64.0
_NEGLIGIBLE = 1e-13
_LENGTHS = 40.0
_MOST_WORK: Final = 20_000_000
_MOST_KNOWN = 16
_REACH, _CLUSTERING = 12.0, 3.0
_N_PLACES = 240
_N_SHARES, _LEAST_SHARE = 4000, 50


@dataclass(frozen=True, eq=False)
class Computed:
    """A law with its method's parameters.

    Args:
        law: of W.
        error: bound on the numerical error of a probability.
        step, draws: as used; None for the other method.
    """

    law: TableOfLaw
    error: float
    step: float | None = None
    draws: int | None = None


def computed(scales: FloatArray, reading: Reading) -> Computed:
    """The law of a sum of Laplace variables by the reading's method, which is not `auto`.

    A step or number of draws that takes too long, or is too inexact, is changed to the nearest
    possible one; the answer states it.

    Args:
        scales: shape (n,), in the query's units; one is above 0.
    """
    positive = np.sort(np.asarray(scales, dtype=float)[scales > 0.0])[::-1]
    # A thousandth of a ulp of the widest bears on no probability.
    key = positive[positive > 1e-19 * positive[0]].tobytes()
    if reading.method == "convolution":
        return _by_convolution(key, reading.step, reading.error)
    return _by_draws(key, reading.draws, reading.error)


@lru_cache(maxsize=_MOST_KNOWN)
def _by_convolution(key: bytes, step: float | None, error: float) -> Computed:
    scales = np.frombuffer(key)
    deviation = math.sqrt(2.0 * float(np.square(scales).sum()))
    places = _places(deviation)
    used = _step(scales, deviation, step, error)
    if len(scales) == 1:
        return _computed(places, np.exp(-places / scales[0]), np.zeros(len(places)), step=used)
    masses = LatticeMasses.of(scales[1:], step=used, negligible=_NEGLIGIBLE)
    tails = np.array([masses.tail(h, float(scales[0])) for h in places.tolist()])
    off = lattice_error(scales, used) + masses.loss + masses.rounding
    return _computed(places, tails, np.full(len(places), off), step=used)


def _step(scales: FloatArray, deviation: float, asked: float | None, error: float) -> float:
    """The asked step, or one fine enough for the error, within the lattice's size limit."""
    least = max(deviation / _FINEST, _LENGTHS * float(scales.sum()) / _MOST_POINTS)
    wanted = _PART * error if asked is None else _ROUGHEST
    used = max(deviation / _COARSEST if asked is None else asked, least)
    while len(scales) > 1 and used > least and lattice_error(scales, used) > wanted:
        used = max(0.5 * used, least)
    return used


@lru_cache(maxsize=_MOST_KNOWN)
def _by_draws(key: bytes, draws: int | None, error: float) -> Computed:
    scales = np.frombuffer(key)
    wanted = math.log(2.0 / FAILURE) / (2.0 * (_PART_OF_DRAWS * error) ** 2)
    used = math.ceil(wanted) if draws is None else draws
    used = max(LEAST_DRAWS, min(used, MOST_DRAWS, _MOST_WORK // len(scales)))
    generator = np.random.default_rng(list(hashlib.sha256(key).digest()))
    law = MonteCarlo(generator, n_draws=used, confidence=1.0 - FAILURE).prepare(scales)
    drawn = law.magnitudes
    ranks = np.arange(1, used, max(_LEAST_SHARE, used // _N_SHARES))
    places = np.append(0.0, drawn[ranks])
    tails = 1.0 - np.searchsorted(drawn, places, side="right") / used
    # Between places a tail is at most that of the place before.
    off = law.error + np.append(0.0, -np.diff(tails))
    return _computed(places, tails, off, draws=used)


def _places(deviation: float) -> FloatArray:
    steps = np.sinh(np.linspace(0.0, _CLUSTERING, _N_PLACES)) / math.sinh(_CLUSTERING)
    return np.asarray(_REACH * deviation * steps)


def _computed(
    places: FloatArray,
    tails: FloatArray,
    errors: FloatArray,
    *,
    step: float | None = None,
    draws: int | None = None,
) -> Computed:
    """The symmetric law with these P(abs(W) > place), places from 0 on, and their errors."""
    half = 0.5 * np.minimum(tails, 1.0)
    above = np.append(1.0 - half[:0:-1], half)
    law = TableOfLaw(
        np.append(-places[:0:-1], places),
        above[::-1],
        above,
        0.5 * np.append(errors[:0:-1], errors),
        is_exact_in_tails=False,
        is_symmetric=True,
    )
    return Computed(law, 2.0 * law.largest_error, step, draws)


LEAST_LEFT = 1e-12
_CLUSTERING_OF_CUT = 4.0
_N_HALVINGS = 45


class ContradictedPriorError(InputError):
    """The released answers leave almost no probability between the ends of a prior."""

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

    whole: AnyPosterior
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
        """Upper bounds of the mass between a cut and places above it, divided by the mass left."""
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
        """Places over the relevant range, dense where the density is largest."""
        around = self.whole.span(1e-3 * LEAST_LEFT * self._left_over)
        low, high = max(self.low, around.low), min(self.high, around.high)
        top = min(max(self.whole.estimate, low), high)
        steps = np.sinh(np.linspace(0.0, _CLUSTERING_OF_CUT, _N_PLACES)) / math.sinh(
            _CLUSTERING_OF_CUT
        )
        return np.unique(np.append(top - (top - low) * steps, top + (high - top) * steps))


def _best_start(places: FloatArray, before: FloatArray, after: FloatArray, tail: float) -> int:
    """Approximate start of the shortest interval.

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
    """The fitting place nearest to `bad`, by bisection."""
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


_ROUNDING = 1e-12
_ROUGHEST_WITH_PRIOR = 0.05
"""Largest numerical error of a probability that a cut law may have."""


@dataclass(frozen=True)
class AsRead:
    """A posterior by the asked method and prior, with its statement."""

    posterior: AnyPosterior | CutPosterior
    statement: Statement


def read(stated: Stated, known: Posterior, reading: Reading) -> AsRead:
    """The posterior by the reading's method, cut by its prior.

    If a cut leaves so little that numerical errors become too large, the exact law of the
    estimate's error is cut instead, and the statement says so.

    Args:
        stated: the posterior of the query by `auto`, in the query's units.
        known: the law of the estimate's error, in the same units.
        reading: its prior has its ends.

    Raises:
        ContradictedPriorError: the prior leaves almost nothing.
    """
    if known.is_exact:
        _check_exact(known, reading.prior)
        return AsRead(stated.posterior, stated.statement)
    if reading.method != "auto":
        stated = _by_method(stated.statement, known, reading)
    if reading.prior is None:
        return AsRead(stated.posterior, stated.statement)
    if isinstance(stated.posterior, GivenPosterior):
        with contextlib.suppress(ContradictedPriorError):
            return _cut(stated, reading.prior)
        # The law is too rough there. That of a sum of Laplace variables never is.
        stated = Stated(known, Statement("estimator"))
    return _cut(stated, reading.prior)


def _by_method(stated: Statement, known: Posterior, reading: Reading) -> Stated:
    """The law of the estimate's error: the posterior without disagreements."""
    found = computed(known.laplace_scales, reading)
    law = "estimator" if stated.disagreements else stated.law
    posterior = GivenPosterior(known.estimate, found.law, 0.0, 1.0, known.allowance)
    statement = Statement(law, found.error, 0, reading.method, found.step, found.draws)
    return Stated(posterior, statement)


def _cut(stated: Stated, prior: Prior) -> AsRead:
    """The posterior between the prior's ends, with its errors."""
    found = CutPosterior(stated.posterior, *prior.ends)
    error = found.error
    # A narrow cut of an exact law is lost in rounding only where it leaves next to nothing.
    if not error <= _ROUGHEST_WITH_PRIOR:
        raise ContradictedPriorError
    if not isinstance(stated.posterior, GivenPosterior):
        error = stated.statement.error
    return AsRead(found, replace(stated.statement, error=error, prior=prior))


def _check_exact(known: Posterior, prior: Prior | None) -> None:
    """Raise ContradictedPriorError if a public value lies outside the prior's ends."""
    if prior is None:
        return
    low, high = prior.ends
    room = known.allowance + _ROUNDING * abs(known.estimate)
    if not low - room <= known.estimate <= high + room:
        raise ContradictedPriorError
