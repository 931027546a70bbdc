"""A smooth function of sums, and how exact it shall be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.precision import Asked

Values = Callable[[FloatArray], FloatArray]
"""From the sums, shape (k, n), to the number, shape (n,): not a number where it has no value."""


Ends = Callable[[FloatArray, FloatArray], tuple[float, float]]
"""From the ends of intervals of some numbers, shape (m,), to those of the one they tell."""


@dataclass(frozen=True, eq=False)
class Number(Asked):
    """A function of k sums.

    Args:
        values: the function.
        kinds: gives the weights of a record in each sum, for every kind of record that counts in
            some, shape (k, m).
        size: place of the sum that tells how many records there are.
        low, high: public bounds on its value; they may be infinite.
        pieces: the smooth numbers that it follows from, shape (m, n), if it is not smooth itself.
        ends: what intervals of these that hold at once say of it.
        rivals: places of sums of which the greatest tells how many records there are, or with
            `needs_all` the least; empty where `size` does.
    """

    values: Values
    kinds: Callable[[], FloatArray]
    size: int = 0
    low: float = -math.inf
    high: float = math.inf
    pieces: Values | None = None
    ends: Ends | None = None
    rivals: tuple[int, ...] = ()
    needs_all: bool = False

    def size_at(self, means: FloatArray) -> int:
        """The place of the sum that tells how many records there are, by estimates of the sums."""
        first = min if self.needs_all else max
        return first(self.rivals or (self.size,), key=lambda j: float(means[j]))

    @property
    def is_bounded(self) -> bool:
        """Whether its public bounds alone are as near as asked."""
        return self.high - self.low <= 2.0 * self.half_width

    @cached_property
    def weights(self) -> FloatArray:
        """The weights of a record in each sum, by kind of record, shape (k, m)."""
        return self.kinds()

    @cached_property
    def sizes(self) -> FloatArray:
        """The largest weight of a record in each sum, shape (k,)."""
        return np.asarray(np.abs(self.weights).max(axis=1, initial=0.0))

    @cached_property
    def per_record(self) -> float:
        """What a record adds to the sum that tells their number, on average over its kinds."""
        found = np.abs(self.weights[self.size])
        return float(found[found > 0.0].mean()) if (found > 0.0).any() else 1.0

    def price(self, rates: FloatArray) -> float:
        """The greatest loss of a record if each sum is measured at this rate, shape (k,).

        A rate is the loss of a record of weight 1.
        """
        return float((rates @ np.abs(self.weights)).max(initial=0.0))
