"""A value of an attribute by its place in order, and the counts that locate it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from qserver.query.domain import Attribute
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.sealed_periods import first_and_last
from qserver.query.weights import ScaledWeights, Weights, from_runs, product

EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Bins:
    """The bins of a numeric attribute; non-numeric values are in none.

    Args:
        axis: the attribute's place in the domain.
        size: number of its values, non-numeric ones included.
        lows, highs: least and greatest value of each bin.
    """

    axis: int
    size: int
    lows: tuple[Fraction, ...] = field(hash=False)
    highs: tuple[Fraction, ...] = field(hash=False)

    @classmethod
    def of(cls, attribute: Attribute, axis: int) -> Bins:
        """The bins of a numeric attribute."""
        # The last whole number of a bin is one below its end.
        gap = Fraction(int(attribute.kind == "integer"))
        lows, ends = zip(*pairwise(attribute.edges), strict=True)
        return cls(axis, attribute.size, tuple(lows), tuple(end - gap for end in ends))

    @classmethod
    def of_days(cls, attribute: Attribute, axis: int) -> Bins:
        """Bins of an attribute in the order of time: first days, in days since 1970-01-01."""
        known = [first_and_last(name) for name in attribute.value_names[: attribute.n_regular]]
        days = tuple(Fraction((of[0] - EPOCH).days) for of in known if of is not None)
        return cls(axis, attribute.size, days, days)

    @property
    def middle(self) -> Fraction:
        """The middle of the public range."""
        return (self.lows[0] + self.highs[-1]) / 2

    @property
    def radius(self) -> Fraction:
        """Half of the public range."""
        return (self.highs[-1] - self.lows[0]) / 2

    @property
    def error(self) -> Fraction:
        """Most distance of a value from the middle of its bin."""
        return max((high - low) / 2 for low, high in zip(self.lows, self.highs, strict=True))

    def weights(self, of: Callable[[Fraction], Fraction]) -> ScaledWeights:
        """Weights by the distance of a value's bin's middle from `middle`; 0 outside of bins."""
        pairs = zip(self.lows, self.highs, strict=True)
        return self._runs([of((low + high) / 2 - self.middle) for low, high in pairs])

    def _runs(self, values: Sequence[Fraction]) -> ScaledWeights:
        rest = (Fraction(0),) * (self.size - len(values))
        return from_runs(range(1, self.size + 1), (*values, *rest))


@dataclass(frozen=True)
class QuantileOf:
    """The p-quantile of the values of an attribute: the least one for 0, the greatest for 1.

    Args:
        p: in [0, 1].
        bins: those of the attribute.
        is_day: whether values are days since 1970-01-01.
    """

    p: Fraction
    bins: Bins
    is_day: bool = False

    @property
    def n_bins(self) -> int:
        """How many bins there are."""
        return len(self.bins.lows)

    @property
    def is_extreme(self) -> bool:
        """Whether it is the least or the greatest value."""
        return self.p in (0, 1)

    @property
    def has_steps(self) -> bool:
        """Whether WITHIN is about the value; of an extreme it is about counts."""
        return not self.is_extreme

    def count(self, base: LinearQuery, start: int, stop: int) -> LinearQuery:
        """The number of `base` records in some bins."""
        runs = [(start, Fraction(0)), (stop, Fraction(1)), (self.bins.size, Fraction(0))]
        return self._with(base, runs)

    def counts(self, base: LinearQuery, query: LinearQuery) -> bool:
        """Whether a query is the number of `base` records in some bins."""
        own = [
            term.by_axis[self.bins.axis] for term in query.terms if self.bins.axis in term.by_axis
        ]
        if not own:
            return query == base
        inside = [(last, end) for w in own for last, end, value in _runs(w) if value]
        start, stop = (
            of(ends) for of, ends in zip((min, max), zip(*inside, strict=True), strict=True)
        )
        return query == self.count(base, start, stop)

    def threshold(self, base: LinearQuery, stop: int) -> LinearQuery:
        """The number of values in the bins before `stop`, less the part p of all."""
        runs = [(stop, 1 - self.p), (self.n_bins, -self.p), (self.bins.size, Fraction(0))]
        return self._with(base, runs)

    def _with(self, base: LinearQuery, runs: Sequence[tuple[int, Fraction]]) -> LinearQuery:
        ends = [0, *(end for end, _ in runs)]
        kept = [(end, w) for last, (end, w) in zip(ends, runs, strict=False) if end > last]
        return weighted(base, self.bins.axis, from_runs(*zip(*kept, strict=True)))

    @property
    def low_ends(self) -> NDArray[np.float64]:
        """The least value of each bin."""
        return np.array([float(low) for low in self.bins.lows])

    @property
    def high_ends(self) -> NDArray[np.float64]:
        """The greatest value of each bin."""
        return np.array([float(high) for high in self.bins.highs])


def weighted(base: LinearQuery, axis: int, weights: ScaledWeights) -> LinearQuery:
    """The query with its weights on an attribute multiplied by others."""
    terms = []
    for term in base.terms:
        factors = {f.axis: ScaledWeights(Fraction(1), f.weights) for f in term.factors}
        own = factors.get(axis)
        factors[axis] = weights if own is None else product(own, weights)
        terms.append((term.coefficient, factors))
    return replace(linear_query(base.sizes, terms), as_of=base.as_of)


def _runs(weights: Weights) -> Iterator[tuple[int, int, int]]:
    """Start, end and weight of each run of equal weights."""
    return zip((0, *weights.stops), weights.stops, weights.values, strict=False)


RECORD = 1.0
"""How far the definitions of a quantile are apart, in records."""


@dataclass(frozen=True)
class Levels:
    """The number lies behind a threshold with D under `below`, and before one with D over `above`.

    The least value is the 0-quantile, and the greatest the 1-quantile. An extreme may lie on either
    side of one threshold.
    """

    below: float
    above: float

    @classmethod
    def sought(cls, p: float, records: float) -> Levels:
        """The levels sought for the p-quantile; for an extreme, few records beyond it."""
        if p == 0.0:
            return cls(records, 0.0)
        return cls(0.0, -records) if p == 1.0 else cls(-RECORD, RECORD)

    @classmethod
    def reached(cls, p: float) -> Levels:
        """The levels of the p-quantile's interval; a record may always lie beyond an extreme."""
        if p == 0.0:
            return cls(-math.inf, 0.0)
        return cls(0.0, math.inf) if p == 1.0 else cls(-RECORD, RECORD)

    @property
    def hold_at_ends(self) -> bool:
        """Whether D is surely not above them before all values, and not below after all."""
        return self.below < self.above < math.inf and self.below > -math.inf

    @property
    def middle(self) -> float:
        """The place where D passes both."""
        return (self.below + self.above) / 2.0

    @property
    def overlap(self) -> float:
        """Half of the distance between them if D may lie between, else 0."""
        return max(self.below - self.above, 0.0) / 2.0
