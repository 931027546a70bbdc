"""Quantiles of a statement by what history knows of counts below the values of an attribute."""

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
from qserver.inference.order.known import Thresholds
from qserver.inference.order.quantile import Quantile
from qserver.inference.order.search import State, state_of, step_of
from qserver.inference.posterior.posterior import Posterior
from qserver.query.linear import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.query.sql.combined.function import Order
from qserver.query.sql.combined.thresholds import QuantileOf
from qserver.records.statement import EXACT, OF_ESTIMATOR, Statement, joined

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
            least=least,
        )

    @cached_property
    def row(self) -> Primitive:
        """The normal form of the number of records."""
        return primitive(self.base)


@dataclass(frozen=True)
class OrderOf:
    """A sum of quantiles, each times a factor, plus a number, and the confidence of its interval.

    Each quantile may miss with its part of what the sum may miss with.
    """

    terms: tuple[tuple[Fraction, QuantileAsked], ...]
    by: Fraction
    confidence: float

    @classmethod
    def of(cls, order: Order, queries: Sequence[LinearQuery], confidence: float) -> OrderOf:
        """The number of these queries, which count the values of its quantiles."""
        own = 1.0 - (1.0 - confidence) / len(order.terms)
        terms = (
            (factor, QuantileAsked(queries[place], of, own)) for factor, place, of in order.terms
        )
        return cls(tuple(terms), order.by, confidence)

    def numbers(self, half_width: float, least: float) -> list[Quantile]:
        """Its quantiles, as exactly as they are sought."""
        n = len(self.terms)
        return [
            one.number(half_width / (n * float(abs(factor))), least) for factor, one in self.terms
        ]


@dataclass(frozen=True)
class OrderKnown:
    """What is known of a sum of quantiles, by each of them.

    Args:
        estimate: None where the interval is all that is possible.
    """

    estimate: float | None
    low: float
    high: float
    parts: tuple[QuantileKnown, ...]

    @classmethod
    def of(cls, one: OrderOf, parts: Sequence[QuantileKnown]) -> OrderKnown:
        """By what is known of each quantile."""
        low = high = middle = one.by
        is_told = True
        for (factor, asked), known in zip(one.terms, parts, strict=True):
            ends = known.ends(asked.of)
            least, most = sorted((factor * ends.low, factor * ends.high))
            low, high, middle = low + least, high + most, middle + factor * ends.middle
            is_told = is_told and (ends.low, ends.high) != (asked.of.lows[0], asked.of.highs[-1])
        rounded = float(low), float(high)
        return cls(
            float(middle) if is_told else None,
            math.nextafter(rounded[0], -math.inf) if rounded[0] > low else rounded[0],
            math.nextafter(rounded[1], math.inf) if rounded[1] < high else rounded[1],
            tuple(parts),
        )

    @property
    def is_known(self) -> bool:
        """Whether history says how many values there are."""
        return all(part.thresholds is not None for part in self.parts)

    @property
    def statement(self) -> Statement:
        """What its interval is one of."""
        return joined([part.statement for part in self.parts])

    def state(self, numbers: Sequence[Quantile]) -> State:
        """Whether the number, as exactly as it is asked, is to be measured further."""
        found = [part.state(number) for part, number in zip(self.parts, numbers, strict=True)]
        if "open" in found:
            return "open"
        return "few" if "few" in found else "met"


@dataclass(frozen=True)
class Ends:
    """The interval of a quantile, and a value in it."""

    low: Fraction
    middle: Fraction
    high: Fraction


@dataclass(frozen=True)
class QuantileKnown:
    """What is known of a quantile.

    Args:
        thresholds: None where history does not say how many records there are.
        size, size_half: how many there are by the estimate, and half the length of its interval.
        size_at_most: they are surely fewer.
    """

    thresholds: Thresholds | None
    size: float
    size_half: float
    size_at_most: float
    statement: Statement

    def ends(self, of: QuantileOf) -> Ends:
        """The interval, and the middle of the bin where D passes 0."""
        if self.thresholds is None:
            return Ends(of.lows[0], (of.lows[0] + of.highs[-1]) / 2, of.highs[-1])
        found = self.thresholds.bracket
        at = min(max(int(self.thresholds.middle), found.start), found.stop - 1)
        middle = (of.lows[at] + of.highs[at]) / 2
        return Ends(of.lows[found.start], middle, of.highs[found.stop - 1])

    def state(self, number: Quantile) -> State:
        """Whether the quantile, as exactly as it is asked, is to be measured further."""
        if number.is_bounded:
            return "met"
        if self.thresholds is None:
            return "open"
        return state_of(number, self.thresholds, size=self.size, size_at_most=self.size_at_most)


UNKNOWN = QuantileKnown(None, 0.0, math.inf, math.inf, OF_ESTIMATOR)


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
    while step >= 1:
        bracket = laws.thresholds(1.0 - one.confidence).bracket
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
        p, total = self.one.of.p, self.total
        ends = {0: total.scaled(-p), self.one.of.n_bins: total.scaled(1 - p)}
        laws = dict(sorted({**ends, **self.inner}.items()))
        tail = missed / 2.0
        return Thresholds(
            tuple(laws),
            np.array([law.estimate for law in laws.values()]),
            np.array([law.low_at(tail) for law in laws.values()]),
            np.array([law.high_at(tail) for law in laws.values()]),
        )

    def known(self, missed: float) -> QuantileKnown:
        """What they say of the quantile, as `thresholds` has it."""
        total = self.total
        is_exact = all(law.error.is_exact for law in (total, *self.inner.values()))
        return QuantileKnown(
            self.thresholds(missed),
            total.estimate,
            total.half_width(self.one.confidence),
            total.high_at(_FEW_TAIL),
            EXACT if is_exact else OF_ESTIMATOR,
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
