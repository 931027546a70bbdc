"""Integer weights over the values of one attribute, run-length encoded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from qserver.errors import QueryError

# Whole numbers up to here are exact in float64, and sums of many of them fit 64 bits.
MAX_WEIGHT = 1 << 40


@dataclass(frozen=True)
class Weights:
    """Weights w_0 .. w_(size-1) as runs: `values[i]` up to, not including, `stops[i]`.

    Always primitive: integers without a common divisor, the first non-zero one positive. So two
    vectors that are multiples of one another are equal here.

    Raises:
        QueryError: the runs are not increasing, not joined, or their values not primitive.
    """

    stops: tuple[int, ...]
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.stops or len(self.stops) != len(self.values):
            raise QueryError("weights", "have one stop per run, and at least one run")
        if any(b <= a for a, b in pairwise((0, *self.stops))):
            raise QueryError("weights", "have increasing stops above 0")
        if any(a == b for a, b in pairwise(self.values)):
            raise QueryError("weights", "have no two neighbouring runs of one value")
        if self.values != (0,) and common_factor(self.values) != 1:
            raise QueryError("weights", "be primitive: no common divisor, the first one positive")

    @property
    def size(self) -> int:
        """Number of values of the attribute."""
        return self.stops[-1]

    @property
    def is_zero(self) -> bool:
        """Whether every weight is zero."""
        return self.values == (0,)

    @property
    def is_constant(self) -> bool:
        """Whether all weights agree: the attribute does not matter."""
        return len(self.values) == 1

    @property
    def is_indicator(self) -> bool:
        """Whether every weight is 0 or 1."""
        return all(v in (0, 1) for v in self.values)

    @cached_property
    def dense(self) -> NDArray[np.int64]:
        """The weights as an array (size,); values are bounded well inside 64 bits."""
        lengths = np.diff(np.array((0, *self.stops)))
        array = np.repeat(np.array(self.values, dtype=np.int64), lengths)
        array.setflags(write=False)
        return array

    def at(self, index: int) -> int:
        """The weight of one value, 0 <= index < size."""
        return self.values[bisect_right(self.stops, index)]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.stops, self.values))


@dataclass(frozen=True)
class ScaledWeights:
    """A rational vector as `factor` times primitive integer `weights`."""

    factor: Fraction
    weights: Weights


def from_points(size: int, points: Mapping[int, Fraction | int]) -> ScaledWeights:
    """The vector of length `size` with these values by index, 0 elsewhere, split as above."""
    stops: list[int] = []
    values: list[Fraction | int] = []
    for i, value in sorted(points.items()):
        if i > (stops[-1] if stops else 0):
            stops.append(i)
            values.append(0)
        stops.append(i + 1)
        values.append(value)
    if not stops or stops[-1] < size:
        stops.append(size)
        values.append(0)
    return from_runs(stops, values)


def from_runs(stops: Sequence[int], values: Sequence[Fraction | int]) -> ScaledWeights:
    """The vector with these runs (neighbouring runs may be equal), split as above.

    Raises:
        QueryError: a weight passes 2^40 times the common divisor of all.
    """
    merged_stops: list[int] = []
    merged: list[Fraction | int] = []
    for stop, value in zip(stops, values, strict=True):
        if merged and merged[-1] == value:
            merged_stops[-1] = stop
        else:
            merged.append(value)
            merged_stops.append(stop)
    factor = common_factor(merged)
    if factor == 0:
        return ScaledWeights(Fraction(0), Weights((merged_stops[-1],), (0,)))
    if factor == 1:
        integers = tuple(int(v) for v in merged)
    else:
        integers = tuple(int(v / factor) for v in merged)
    return ScaledWeights(factor, Weights(tuple(merged_stops), integers))


def product(one: ScaledWeights, other: ScaledWeights) -> ScaledWeights:
    """The vector of products, value by value, of two vectors of one attribute.

    Raises:
        QueryError: a weight passes 2^40 times the common divisor of all.
    """
    a, b = one.weights, other.weights
    stops = sorted({*a.stops, *b.stops})
    values = [a.at(stop - 1) * b.at(stop - 1) for stop in stops]
    found = from_runs(stops, values)
    return ScaledWeights(found.factor * one.factor * other.factor, found.weights)


def indicator(size: int, chosen: Iterable[int]) -> Weights:
    """Weights 1 at the indices in `chosen`, 0 elsewhere."""
    return from_points(size, dict.fromkeys(chosen, 1)).weights


def interval(size: int, start: int, stop: int) -> Weights:
    """Weights 1 on start <= i < stop, 0 elsewhere; 0 <= start, stop <= size."""
    runs = [(start, 0), (stop, 1), (size, 0)]
    kept, last = [], 0
    for end, value in runs:
        if end > last:
            kept.append((end, value))
            last = end
    return from_runs([e for e, _ in kept], [v for _, v in kept]).weights


def common_factor(values: Iterable[Fraction | int]) -> Fraction:
    """The largest rational that divides all values, signed like the first non-zero one.

    Zero when every value is zero.

    Raises:
        QueryError: a value passes 2^40 times the factor. The check is immediate: a factor of many
            unrelated fractions would grow to millions of digits.
    """
    values = list(values)
    whole = [v for v in values if isinstance(v, int)]
    if len(whole) == len(values):
        return _common_divisor(whole)
    over, under, sign = 0, 1, 0
    greatest: Fraction | int = 0
    for value in values:
        greatest = max(greatest, value, -value)
        if value and not sign:
            sign = 1 if value > 0 else -1
        over = gcd(over * (value.denominator), value.numerator * under)
        under = under * value.denominator
        shared = gcd(over, under) or 1
        over, under = over // shared, under // shared
        if greatest.numerator * under > MAX_WEIGHT * over * greatest.denominator:
            raise _too_far_apart()
    return Fraction(sign * over, under)


def _common_divisor(values: Sequence[int]) -> Fraction:
    """`common_factor` of whole numbers, the usual weights."""
    found = gcd(*values)
    if max(map(abs, values), default=0) > MAX_WEIGHT * found:
        raise _too_far_apart()
    first = next((v for v in values if v), 0)
    return Fraction(-found if first < 0 else found)


def _too_far_apart() -> QueryError:
    return QueryError("weights", "be within a factor of 2^40 of their common divisor")


def common_denominator(values: Iterable[Fraction]) -> int:
    """Least common multiple of the denominators."""
    return lcm(*(v.denominator for v in values))
