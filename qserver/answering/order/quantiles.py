"""Quantiles and extremes by what history knows of counts below values, and sums of such numbers.

The interval of a number that is told by places in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.engine import InferenceEngine
from qserver.inference.order.known import Bracket, Thresholds, crossing
from qserver.inference.order.quantile import Quantile
from qserver.inference.order.search import State, state_of, step_of
from qserver.inference.posterior.posterior import Posterior
from qserver.query.asking.levels import Levels
from qserver.query.linear import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.query.sql.combined.thresholds import QuantileOf
from qserver.records.statement import EXACT, OF_ESTIMATOR, Statement


@dataclass(frozen=True)
class Ends:
    """Both ends, and a value between that is given; None where nothing more is known."""

    low: Fraction
    middle: Fraction | None
    high: Fraction


_FEW_TAIL = 0.005
_MOST_LOOKED_AT = 128
"""Most thresholds of one distance that are looked for."""


@dataclass(frozen=True)
class QuantileAsked:
    """A quantile of the records that a query counts, and the confidence of its interval."""

    base: LinearQuery
    of: QuantileOf
    confidence: float

    def number(self, half_width: float, least: float) -> Quantile:
        """The quantile that is sought.

        Args:
            least: records that a group is assumed to have.
        """
        of = self.of
        return Quantile(
            float(of.p),
            of.low_ends,
            of.high_ends,
            half_width=half_width,
            confidence=self.confidence,
            least=2.0 * half_width if of.is_extreme else least,
        )

    @property
    def unknown(self) -> QuantileKnown:
        """What is known where history says nothing."""
        ends = (0.0, math.inf, math.inf)
        return QuantileKnown(self.of, None, *ends, has_record=False, statement=OF_ESTIMATOR)

    def laws(self, engine: InferenceEngine) -> Laws | None:
        """What the engine's history tells; None where it does not tell the number of values."""
        return known_laws(engine, self)

    @cached_property
    def row(self) -> Primitive:
        """The normal form of the number of records."""
        return primitive(self.base)


@dataclass(frozen=True)
class QuantileKnown:
    """What is known of a quantile.

    Args:
        of: which it is.
        thresholds: None where history does not say how many records there are.
        size, size_half: how many there are by the estimate, and half the length of its interval.
        size_at_most: they are surely fewer.
        has_record: whether there surely is one.
    """

    of: QuantileOf
    thresholds: Thresholds | None
    size: float
    size_half: float
    size_at_most: float
    has_record: bool
    statement: Statement

    @property
    def is_known(self) -> bool:
        """Whether history says how many values there are."""
        return self.thresholds is not None

    @property
    def halves(self) -> tuple[float, ...]:
        """Half the length of the interval of the number of values."""
        return (self.size_half,)

    @property
    def ends(self) -> Ends:
        """The interval, and the middle of the bin where D passes 0.

        Of an extreme the end that some record surely reaches is given.
        """
        of, known = self.of, self.thresholds
        if known is None:
            return Ends(of.lows[0], None, of.highs[-1])
        found = known.bracket(Levels.reached(float(of.p)))
        low, high = of.lows[found.start], of.highs[found.stop - 1]
        if of.is_extreme:
            reached = low if of.p else high
            return Ends(low, reached if self._reaches(found) else None, high)
        at = min(max(int(crossing(known, 0.0)), found.start), found.stop - 1)
        is_told = found.n_bins < of.n_bins
        return Ends(low, (of.lows[at] + of.highs[at]) / 2 if is_told else None, high)

    def _reaches(self, found: Bracket) -> bool:
        """Whether some record surely reaches an extreme."""
        return self.has_record or (found.start > 0 if self.of.p else found.stop < self.of.n_bins)

    def state(self, number: Quantile) -> State:
        """Whether the quantile, as exactly as it is asked, is to be measured further."""
        if number.is_bounded:
            return "met"
        if self.thresholds is None:
            return "open"
        return state_of(
            number,
            self.thresholds,
            size=self.size,
            size_at_most=self.size_at_most,
            has_record=self.has_record,
        )


def known_laws(engine: InferenceEngine, one: QuantileAsked) -> Laws | None:
    """What the engine's history tells of D; None where it does not tell the number of values.

    Thresholds are looked for from coarse to fine, and only where the quantile may be.
    """
    if one.row.is_zero:
        return Laws(one, Posterior(0.0, np.zeros(0), 0.0))
    found = engine.estimate(one.row, confidence=one.confidence, is_searched=False)
    if found is None:
        return None
    laws, step = Laws(one, found.posterior.scaled(one.row.multiplier)), step_of(one.of.n_bins)
    levels = Levels.reached(float(one.of.p))
    while step >= 1:
        bracket = laws.thresholds(1.0 - one.confidence).bracket(levels)
        first = (bracket.start // step + 1) * step
        places = [s for s in range(first, bracket.stop, step) if s not in laws.inner]
        if len(places) > _MOST_LOOKED_AT:
            break
        for stop in places:
            row = _threshold(one.base, one.of, stop)
            estimate = engine.estimate(row, confidence=one.confidence, is_searched=False)
            if estimate is not None:
                laws.inner[stop] = estimate.posterior.scaled(row.multiplier)
        step //= 2
    return laws


@dataclass(frozen=True, eq=False)
class Laws:
    """The laws of D at thresholds.

    Args:
        total: that of the number of values.
        inner: per threshold between the first and the last.
    """

    one: QuantileAsked
    total: Posterior
    inner: dict[int, Posterior] = field(default_factory=dict)

    def thresholds(self, missed: float) -> Thresholds:
        """What they say, for an interval that may miss with this probability."""
        laws = dict(sorted({**self._ends, **self.inner}.items()))
        tail = missed / 2.0
        return Thresholds(
            tuple(laws),
            np.array([law.estimate for law in laws.values()]),
            np.array([law.low_at(tail) for law in laws.values()]),
            np.array([law.high_at(tail) for law in laws.values()]),
        )

    @cached_property
    def _ends(self) -> dict[int, Posterior]:
        """The laws of D before all values and behind them."""
        p = self.one.of.p
        return {0: self.total.scaled(-p), self.one.of.n_bins: self.total.scaled(1 - p)}

    def known(self, missed: float) -> QuantileKnown:
        """What they say of the quantile, as `thresholds` has it."""
        total = self.total
        is_exact = all(law.error.is_exact for law in (total, *self.inner.values()))
        return QuantileKnown(
            self.one.of,
            self.thresholds(missed),
            total.estimate,
            total.half_width(self.one.confidence),
            total.high_at(_FEW_TAIL),
            has_record=total.low_at(missed / 2.0) > 0.0,
            statement=EXACT if is_exact else OF_ESTIMATOR,
        )


def known_counts(engine: InferenceEngine, one: QuantileAsked, stops: Sequence[int]) -> FloatArray:
    """Half-widths of the counts between stops by history; infinite where it does not give one."""
    found = []
    for row in count_rows(one, stops):
        known = engine.estimate(row, confidence=one.confidence, is_searched=False)
        law = None if known is None else known.posterior.scaled(row.multiplier)
        found.append(math.inf if law is None else law.half_width(one.confidence))
    return np.array(found)


def count_rows(one: QuantileAsked, stops: Sequence[int]) -> list[Primitive]:
    """The normal forms of the counts between stops."""
    return [_count(one.base, one.of, *pair) for pair in pairwise(stops)]


@lru_cache(maxsize=1 << 14)
def _count(base: LinearQuery, of: QuantileOf, start: int, stop: int) -> Primitive:
    return primitive(of.count(base, start, stop))


@lru_cache(maxsize=1 << 14)
def _threshold(base: LinearQuery, of: QuantileOf, stop: int) -> Primitive:
    return primitive(of.threshold(base, stop))
