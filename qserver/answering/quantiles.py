"""Numbers told by places in order, from what history knows of the counts behind them.

Quantiles and extremes by what history knows of counts below values, and sums of such numbers.

The interval of a number that is told by places in order.

The number of groups that pass a test, by what history knows of their counts.

All groups are measured roughly, and then more and more exactly, until so few are still in doubt as
WITHIN allows. They are disjoint, so one costs as much as all. Where WITHIN is about counts, a group
whose counts are surely under 2 w is in doubt no more.

So the last look judges all groups, and it errs with nearly all that the number may miss with. The
looks before have the rest. One of them ends the search too early only if all groups but 2 w are
judged, and at least one of 2 w + 1 wrongly, that only chance could judge. So they judge by
intervals that are `caution` times as long, as the noise's law tells. Of Laplace noise, with h the
half-width of an error at miss probability d, the error passes k h with d^k at most, since the
logarithm of the tail of a log-concave law is concave, and 0 at 0.

Sums of quantiles, extremes and numbers of groups, each told by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from qserver.answering.grounds import Estimates
from qserver.inference.arrays import FloatArray
from qserver.inference.engine import InferenceEngine
from qserver.inference.estimate import Posterior
from qserver.inference.quantiles.quantile import Bracket, Quantile, Thresholds, crossing
from qserver.inference.quantiles.search import State, state_of, step_of
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import Primitive, primitive
from qserver.query.sql.cells import CellValue
from qserver.query.sql.functions.function_of_sums import KnownPart, Order
from qserver.query.sql.functions.group_count import LAST_LOOK, Passing
from qserver.query.sql.functions.thresholds import Levels, QuantileOf
from qserver.query.sql.tables.cell_intervals import CellInterval
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from qserver.records.statement import EXACT, OF_ESTIMATOR, Statement, joined


@dataclass(frozen=True)
class Ends:
    """Both ends, and a given value between them; None where unknown."""

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
    law: NoiseLaw = LAPLACE

    def number(self, half_width: float, least: float) -> Quantile:
        """The sought quantile; `least`: the assumed number of records of a group."""
        of = self.of
        return Quantile(
            float(of.p),
            of.low_ends,
            of.high_ends,
            half_width=half_width,
            confidence=self.confidence,
            least=2.0 * half_width if of.is_extreme else least,
            law=self.law,
        )

    @property
    def unknown(self) -> QuantileKnown:
        """The knowledge of a quantile where history has none."""
        ends = (0.0, math.inf, math.inf)
        return QuantileKnown(self.of, None, *ends, has_record=False, statement=OF_ESTIMATOR)

    def laws(self, engine: Estimates) -> Laws | None:
        """The laws of the engine's history; None unless it tells the number of values."""
        return known_laws(engine, self)

    @cached_property
    def row(self) -> Primitive:
        """The normal form of the number of records."""
        return primitive(self.base)


@dataclass(frozen=True)
class QuantileKnown:
    """What history knows of a quantile.

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
        """Whether history tells the number of values."""
        return self.thresholds is not None

    @property
    def halves(self) -> tuple[float, ...]:
        """Half the length of the interval of the number of values."""
        return (self.size_half,)

    @property
    def ends(self) -> Ends:
        """The interval, and the middle of the bin where D crosses 0.

        Of an extreme the end that some record surely reaches is given.
        """
        of, known = self.of, self.thresholds
        if known is None:
            return Ends(of.bins.lows[0], None, of.bins.highs[-1])
        found = known.bracket(Levels.reached(float(of.p)))
        low, high = of.bins.lows[found.start], of.bins.highs[found.stop - 1]
        if of.is_extreme:
            reached = low if of.p else high
            return Ends(low, reached if self._reaches(found) else None, high)
        at = min(max(int(crossing(known, 0.0)), found.start), found.stop - 1)
        is_told = found.n_bins < of.n_bins
        return Ends(low, (of.bins.lows[at] + of.bins.highs[at]) / 2 if is_told else None, high)

    def _reaches(self, found: Bracket) -> bool:
        """Whether some record surely reaches an extreme."""
        return self.has_record or (found.start > 0 if self.of.p else found.stop < self.of.n_bins)

    def state(self, number: Quantile) -> State:
        """Whether to measure the quantile further, at its asked exactness."""
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


def known_laws(engine: Estimates, one: QuantileAsked) -> Laws | None:
    """The laws of D by the engine's history; None unless it tells the number of values.

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
        """The thresholds of an interval that may miss with this probability."""
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
        """The known quantile, by `thresholds`."""
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
    """Known half-widths of the counts between stops; infinite where unknown."""
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


_FIRST = 16.0
"""The first step asks for intervals this many times as long as the shortest that are asked."""
_FACTORS = (0.8, 0.64, 0.5, 0.4, 0.32, 0.25)
"""A step shortens intervals to the largest of these parts by which it may end, or the least."""
_LOOKS = 4.0
"""So many looks are before the last in nearly all cases."""
_ROUNDING = 1.0 + 1e-6
_UNKNOWN = KnownPart(0.0, -math.inf, math.inf)


@dataclass(frozen=True)
class GroupsAsked:
    """The number of groups that pass, by the counts of each in turn.

    Args:
        confidence: of the number's interval.
    """

    queries: tuple[LinearQuery, ...]
    of: Passing
    confidence: float
    law: NoiseLaw = LAPLACE

    def number(self, half_width: float, _least: float) -> Groups:
        """The sought number."""
        part, of = self.of.part_missed(1.0 - self.confidence), self.law.half_width
        allowed = math.floor(2.0 * half_width) if self.of.has_steps else 0
        by_chance = min(allowed + 1, self.of.n_groups) / self.of.n_groups
        more = max(_LOOKS * by_chance * LAST_LOOK / (1.0 - LAST_LOOK), 1.0)
        caution = of(part / more) / of(part)
        return Groups(self.of, half_width, self.of.width(half_width), of(part), caution, self.law)

    @property
    def unknown(self) -> GroupsKnown:
        """The knowledge of the number where history has none."""
        return GroupsKnown(self.of, (_UNKNOWN,) * len(self.queries), OF_ESTIMATOR)

    def laws(self, engine: Estimates) -> GroupsLaws | None:
        """The laws of each count by the engine's history."""
        confidence = 1.0 - self.of.part_missed(1.0 - self.confidence)
        found = list[Posterior | None]()
        for row in map(primitive, self.queries):
            if row.is_zero:
                found.append(Posterior(0.0, np.zeros(0), 0.0))
                continue
            known = engine.estimate(row, confidence=confidence, is_searched=False)
            found.append(None if known is None else known.posterior.scaled(row.multiplier))
        return GroupsLaws(self, tuple(found))


@dataclass(frozen=True)
class Groups:
    """A number of groups with its asked exactness.

    Args:
        half_width: of the number, or of the counts where WITHIN is about these.
        least_half: no count is asked more exactly.
        unit: the half-width of a count with noise 1.
        caution: intervals are so many times as long for looks before the last.
    """

    of: Passing
    half_width: float
    least_half: float
    unit: float
    caution: float
    law: NoiseLaw

    def open_groups(self, parts: Sequence[KnownPart]) -> list[int]:
        """The groups to measure further; none if few enough are in doubt."""
        judged = self.of.judged([self._cautious(part) for part in parts])
        size, doubtful = len(self.of.columns), [i for i, one in enumerate(judged) if one.is_open]
        if self.of.has_steps and len(doubtful) <= 2.0 * self.half_width:
            return []
        return [i for i in doubtful if self._is_open(parts[i * size : (i + 1) * size])]

    def _cautious(self, part: KnownPart) -> KnownPart:
        """A count with the interval that a look judges it by."""
        if part.half_width <= self.least_half * _ROUNDING or math.isinf(part.half_width):
            return part
        half = part.half_width * self.caution
        return KnownPart(part.estimate, part.estimate - half, part.estimate + half)

    def _is_open(self, group: Sequence[KnownPart]) -> bool:
        if all(part.half_width <= self.least_half * _ROUNDING for part in group):
            return False
        return self.of.has_steps or any(part.high >= 2.0 * self.half_width for part in group)

    def shortened(self, parts: Sequence[KnownPart], factor: float) -> list[KnownPart]:
        """The counts with intervals this short, about the same estimates, but none too short."""
        found = list[KnownPart]()
        for part in parts:
            half = self.next_half(part, factor)
            found.append(KnownPart(part.estimate, part.estimate - half, part.estimate + half))
        return found

    def next_half(self, part: KnownPart, factor: float) -> float:
        """The half-width to ask next: a part of the known one, else of the first one."""
        now = part.half_width * factor if math.isfinite(part.half_width) else math.inf
        return min(max(now, self.least_half), _FIRST * self.least_half, part.half_width)


@dataclass(frozen=True)
class GroupsKnown:
    """What history knows of a number of groups.

    Args:
        parts: its counts, at the confidence that they need.
    """

    of: Passing
    parts: tuple[KnownPart, ...]
    statement: Statement

    @property
    def is_known(self) -> bool:
        """Whether history tells every count."""
        return all(map(math.isfinite, self.halves))

    @property
    def halves(self) -> tuple[float, ...]:
        """Half-widths of the counts; infinite where unknown."""
        return tuple(part.half_width for part in self.parts)

    @property
    def ends(self) -> Ends:
        """The interval, and a value in it."""
        found = self.of.value(self.parts)
        middle = None if found.estimate is None else Fraction(found.estimate)
        return Ends(Fraction(found.low), middle, Fraction(found.high))

    def state(self, number: Groups) -> State:
        """Whether to measure the number further, at its asked exactness."""
        return "open" if number.open_groups(self.parts) else "met"

    def next_halves(self, number: Groups) -> tuple[float, ...]:
        """The half-widths of the counts to ask next."""
        ends = (f for f in _FACTORS if not number.open_groups(number.shortened(self.parts, f)))
        factor = next(ends, _FACTORS[-1])
        return tuple(number.next_half(part, factor) for part in self.parts)


@dataclass(frozen=True)
class GroupsLaws:
    """The laws of the counts; None where history tells none."""

    one: GroupsAsked
    laws: tuple[Posterior | None, ...]

    def known(self, missed: float) -> GroupsKnown:
        """The known number, with an interval that may miss with this probability."""
        tail = self.one.of.part_missed(missed) / 2.0
        parts = tuple(_UNKNOWN if law is None else _part(law, tail) for law in self.laws)
        is_exact = all(law is not None and law.is_exact for law in self.laws)
        return GroupsKnown(self.one.of, parts, EXACT if is_exact else OF_ESTIMATOR)


def _part(law: Posterior, tail: float) -> KnownPart:
    return KnownPart(law.estimate, law.low_at(tail), law.high_at(tail))


TermAsked = QuantileAsked | GroupsAsked
TermKnown = QuantileKnown | GroupsKnown


@dataclass(frozen=True)
class Term:
    """A summand with its asked exactness.

    Args:
        number: of the same kind as what is asked.
    """

    asked: TermAsked
    number: Quantile | Groups

    def state(self, known: TermKnown) -> State:
        """Whether to measure the summand further, by what history knows."""
        if isinstance(self.number, Quantile):
            return known.state(self.number) if isinstance(known, QuantileKnown) else "met"
        return known.state(self.number) if isinstance(known, GroupsKnown) else "met"

    def next_halves(self, known: TermKnown) -> tuple[float, ...]:
        """The half-widths to ask of its own counts now, if open.

        The number of values behind a quantile follows from tables: it is asked for nothing.
        """
        if isinstance(self.number, Groups) and isinstance(known, GroupsKnown):
            is_open = known.state(self.number) == "open"
            return known.next_halves(self.number) if is_open else known.halves
        return (math.inf,)

    def last_halves(self, known: TermKnown) -> tuple[float, ...]:
        """The sufficient half-widths, or the last ones to ask."""
        if isinstance(self.number, Quantile) or self.state(known) != "open":
            return known.halves
        return tuple(min(half, self.number.least_half) for half in known.halves)

    def price(self, known: TermKnown) -> float:
        """The loss of a record by a count to ask next; 0 by a table."""
        if self.state(known) != "open":
            return 0.0
        rate = self.number.unit / min(self.next_halves(known))
        return self.number.law.charge_of_sharpness(rate)


@dataclass(frozen=True)
class OrderOf:
    """A sum of numbers, each times a factor, plus a number, and the confidence of its interval.

    Each may miss with its part of what the sum may miss with.
    """

    terms: tuple[tuple[Fraction, TermAsked], ...]
    by: Fraction
    confidence: float

    @classmethod
    def of(
        cls,
        order: Order,
        queries: Sequence[LinearQuery],
        confidence: float,
        law: NoiseLaw = LAPLACE,
    ) -> OrderOf:
        """The number of these queries, which determine its terms, measured by this noise."""
        own, terms = 1.0 - (1.0 - confidence) / len(order.terms), []
        for factor, place, of in order.terms:
            term: TermAsked
            if isinstance(of, QuantileOf):
                term = QuantileAsked(queries[place], of, own, law)
            elif isinstance(of, Passing):
                term = GroupsAsked(tuple(queries[place : place + of.n_counts]), of, own, law)
            terms.append((factor, term))
        return cls(tuple(terms), order.by, confidence)

    def numbers(self, half_width: float, least: float) -> list[Term]:
        """Its terms, at their asked exactness.

        Where WITHIN is about counts, it is the same of all terms.
        """
        found = []
        for factor, one in self.terms:
            shared = len(self.terms) * float(abs(factor)) if one.of.has_steps else 1.0
            found.append(Term(one, one.number(half_width / shared, least)))
        return found


@dataclass(frozen=True)
class OrderKnown:
    """What history knows of a sum, term by term.

    Args:
        value: without an estimate where nothing beyond what is public is known of a term.
    """

    value: CellValue
    parts: tuple[TermKnown, ...]

    @classmethod
    def of(cls, one: OrderOf, parts: Sequence[TermKnown]) -> OrderKnown:
        """The known sum, from the known terms."""
        low = high = middle = one.by
        is_told = True
        for (factor, _), known in zip(one.terms, parts, strict=True):
            ends = known.ends
            least, most = sorted((factor * ends.low, factor * ends.high))
            low, high, middle = low + least, high + most, middle + factor * (ends.middle or 0)
            is_told = is_told and ends.middle is not None
        rounded = float(low), float(high)
        interval = CellInterval(
            math.nextafter(rounded[0], -math.inf) if rounded[0] > low else rounded[0],
            math.nextafter(rounded[1], math.inf) if rounded[1] < high else rounded[1],
        )
        return cls(CellValue(float(middle) if is_told else None, interval), tuple(parts))

    @property
    def is_known(self) -> bool:
        """Whether history tells every term."""
        return all(part.is_known for part in self.parts)

    @property
    def statement(self) -> Statement:
        """The law behind its interval."""
        return joined([part.statement for part in self.parts])

    def state(self, numbers: Sequence[Term]) -> State:
        """Whether to measure the sum further, at its asked exactness."""
        found = [term.state(part) for part, term in zip(self.parts, numbers, strict=True)]
        if "open" in found:
            return "open"
        return "few" if "few" in found else "met"
