"""Arithmetic on functions of sums: with a constant, or the sum of two.

Intervals are mapped by their ends, rounded outward. The interval of a sum holds if both do, so each
may miss with half the probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from qserver.query.linear_query import LinearQuery
from qserver.query.sql.functions.function_of_sums import (
    Combination,
    FunctionOfSums,
    KnownPart,
    Order,
    Smooth,
)
from qserver.query.sql.functions.group_count import Passing
from qserver.query.sql.functions.quantile import ByThresholds, Quantile


@dataclass(frozen=True)
class Moved(FunctionOfSums):
    """A function without kinks times a non-zero factor, plus a number."""

    of: FunctionOfSums
    factor: Fraction
    by: Fraction

    @property
    def has_steps(self) -> bool:
        """As the function."""
        return self.of.has_steps

    @property
    def stated_half_width(self) -> Fraction:
        """The function's, in the units of the number that WITHIN is about."""
        return self.of.stated_half_width * (abs(self.factor) if self.has_steps else 1)

    @property
    def smooth(self) -> Smooth | None:
        """The smooth form of the function, moved."""
        found = self.of.smooth
        if found is None:
            return None
        factor, by = float(self.factor), float(self.by)
        low, high = sorted((factor * found.low + by, factor * found.high + by))
        return replace(
            found, values=lambda parts: factor * found.values(parts) + by, low=low, high=high
        )

    @property
    def order(self) -> Order | None:
        """The order of the function, moved."""
        found = self.of.order
        if found is None:
            return None
        terms = tuple((self.factor * factor, place, of) for factor, place, of in found.terms)
        return Order(terms, self.factor * found.by + self.by)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The function's value and both ends, moved."""
        found = self.of.value(parts)
        ends = (found.low, found.high) if self.factor > 0 else (found.high, found.low)
        estimate = None if found.estimate is None else float(self._of(found.estimate))
        return _outward(estimate, *map(self._of, ends))

    def _of(self, value: float) -> Fraction | float:
        """Exactly; an infinite end stays one."""
        if math.isinf(value):
            return value if self.factor > 0 else -value
        return Fraction(value) * self.factor + self.by


@dataclass(frozen=True)
class Total(FunctionOfSums):
    """The sum of two functions, whose WITHIN is about the same.

    Both have steps, or neither; both are smooth, or neither; and both are told by places in order,
    or neither.

    Args:
        n_first, n_second: sums of each; those of the second follow.
    """

    first: FunctionOfSums
    second: FunctionOfSums
    n_first: int
    n_second: int

    @property
    def has_steps(self) -> bool:
        """As both functions."""
        return self.first.has_steps

    @property
    def stated_half_width(self) -> Fraction:
        """The sum of both; for counts the half-width of one."""
        both = self.first.stated_half_width, self.second.stated_half_width
        return sum(both, Fraction(0)) if self.has_steps else max(both)

    @property
    def smooth(self) -> Smooth | None:
        """The sum of both, where both are smooth."""
        one, other, n = self.first.smooth, self.second.smooth, self.n_first
        if one is None or other is None:
            return None
        return Smooth(
            lambda parts: one.values(parts[:n]) + other.values(parts[n:]),
            one.low + other.low,
            one.high + other.high,
            one.size,
            one.hides or other.hides,
            one.is_steady and other.is_steady,
        )

    @property
    def order(self) -> Order | None:
        """The terms of both, if both are told by places in order."""
        one, other = self.first.order, self.second.order
        if one is None or other is None:
            return None
        moved = tuple((factor, self.n_first + place, of) for factor, place, of in other.terms)
        return Order((*one.terms, *moved), one.by + other.by)

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The sum of the values, and of the ends."""
        one = self.first.value(parts[: self.n_first])
        other = self.second.value(parts[self.n_first :])
        known = one.estimate is not None and other.estimate is not None
        estimate = (one.estimate or 0.0) + (other.estimate or 0.0) if known else None
        return _outward(estimate, _sum(one.low, other.low), _sum(one.high, other.high))


@dataclass(frozen=True)
class AtOnce:
    """A function, and queries whose simultaneous intervals give its interval."""

    queries: tuple[LinearQuery, ...]
    function: FunctionOfSums


def at_once(function: FunctionOfSums, queries: Sequence[LinearQuery], most: int) -> AtOnce:
    """Quantiles by all counts below values, about `most` of them."""
    if isinstance(function, Quantile):
        return AtOnce(*function.at_once(queries[0], most))
    if isinstance(function, Moved):
        found = at_once(function.of, queries, most)
        return AtOnce(found.queries, Moved(found.function, function.factor, function.by))
    if isinstance(function, Total):
        n = function.n_first
        one = at_once(function.first, queries[:n], most // 2)
        other = at_once(function.second, queries[n:], most // 2)
        sizes = len(one.queries), len(other.queries)
        total = Total(one.function, other.function, *sizes)
        return AtOnce((*one.queries, *other.queries), total)
    return AtOnce(tuple(queries), function)


def widths_at_once(function: FunctionOfSums, half_width: float, base: float) -> tuple[float, ...]:
    """Half-widths of a function's sums, for simultaneous intervals.

    Args:
        half_width: of the number, or of its counts if WITHIN is about these.
        base: assumed number of records.
    """
    if isinstance(function, Moved):
        scale = float(abs(function.factor)) if function.has_steps else 1.0
        return widths_at_once(function.of, half_width / scale, base)
    if isinstance(function, Total):
        own = half_width / 2.0 if function.has_steps else half_width
        both = (function.first, function.second)
        return tuple(width for one in both for width in widths_at_once(one, own, base))
    if isinstance(function, Passing):
        return (function.width(half_width),) * function.n_counts
    return function.widths(half_width, base) if isinstance(function, ByThresholds) else ()


def _sum(one: float, other: float) -> Fraction | float:
    """The exact sum; infinite if one is."""
    if math.isinf(one) or math.isinf(other):
        return one + other
    return Fraction(one) + Fraction(other)


def _outward(estimate: float | None, low: Fraction | float, high: Fraction | float) -> Combination:
    """The interval with ends rounded outward to floats."""
    least, most = float(low), float(high)
    return Combination(
        estimate,
        math.nextafter(least, -math.inf) if least > low else least,
        math.nextafter(most, math.inf) if most < high else most,
    )
