"""Which value of an attribute is meant by its place in order, and the counts that tell it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from qserver.query.linear import LinearQuery, linear_query
from qserver.query.weights import ScaledWeights, Weights, from_runs, product


@dataclass(frozen=True)
class QuantileOf:
    """The p-quantile of the values of an attribute: the least one for 0, the greatest for 1.

    Args:
        p: in [0, 1].
        axis: the attribute's place in the domain.
        size: the number of its values, with those that are no numbers.
        lows, highs: per bin the least and the greatest value in it; the bins come first.
        is_day: whether values are days since 1970-01-01.
    """

    p: Fraction
    axis: int
    size: int
    lows: tuple[Fraction, ...] = field(hash=False)
    highs: tuple[Fraction, ...] = field(hash=False)
    is_day: bool = False

    @property
    def n_bins(self) -> int:
        """How many bins there are."""
        return len(self.lows)

    @property
    def is_extreme(self) -> bool:
        """Whether it is the least or the greatest value."""
        return self.p in (0, 1)

    @property
    def has_steps(self) -> bool:
        """Whether WITHIN is about the value; of an extreme it is about counts."""
        return not self.is_extreme

    def count(self, base: LinearQuery, start: int, stop: int) -> LinearQuery:
        """The number of values in some bins, of those that `base` counts."""
        runs = [(start, Fraction(0)), (stop, Fraction(1)), (self.size, Fraction(0))]
        return self._with(base, runs)

    def counts(self, base: LinearQuery, query: LinearQuery) -> bool:
        """Whether a query is the number of values in some bins, of those that `base` counts."""
        own = [term.by_axis[self.axis] for term in query.terms if self.axis in term.by_axis]
        if not own:
            return query == base
        inside = [(last, end) for w in own for last, end, value in _runs(w) if value]
        start, stop = (
            of(ends) for of, ends in zip((min, max), zip(*inside, strict=True), strict=True)
        )
        return query == self.count(base, start, stop)

    def threshold(self, base: LinearQuery, stop: int) -> LinearQuery:
        """The number of values in the bins before `stop`, less the part p of all."""
        runs = [(stop, 1 - self.p), (self.n_bins, -self.p), (self.size, Fraction(0))]
        return self._with(base, runs)

    def _with(self, base: LinearQuery, runs: Sequence[tuple[int, Fraction]]) -> LinearQuery:
        ends = [0, *(end for end, _ in runs)]
        kept = [(end, w) for last, (end, w) in zip(ends, runs, strict=False) if end > last]
        return weighted(base, self.axis, from_runs(*zip(*kept, strict=True)))

    @property
    def low_ends(self) -> NDArray[np.float64]:
        """The least value of each bin."""
        return np.array([float(low) for low in self.lows])

    @property
    def high_ends(self) -> NDArray[np.float64]:
        """The greatest value of each bin."""
        return np.array([float(high) for high in self.highs])


def weighted(base: LinearQuery, axis: int, weights: ScaledWeights) -> LinearQuery:
    """The query with other weights on an attribute, times those that it has."""
    terms = []
    for term in base.terms:
        factors = {f.axis: ScaledWeights(Fraction(1), f.weights) for f in term.factors}
        own = factors.get(axis)
        factors[axis] = weights if own is None else product(own, weights)
        terms.append((term.coefficient, factors))
    return replace(linear_query(base.sizes, terms), as_of=base.as_of)


def _runs(weights: Weights) -> Iterator[tuple[int, int, int]]:
    """Where each run of equal weights begins and ends, and its weight."""
    return zip((0, *weights.stops), weights.stops, weights.values, strict=False)
