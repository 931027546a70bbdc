"""A smooth function of sums, and how exact it shall be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray

Values = Callable[[FloatArray], FloatArray]
"""From the sums, shape (k, n), to the number, shape (n,): not a number where it has no value."""


@dataclass(frozen=True, eq=False)
class Number:
    """A function of k sums that is asked within +-half_width.

    Args:
        values: the function.
        kinds: gives the weights of a record in each sum, for every kind of record that counts in
            some, shape (k, m).
        half_width: > 0.
        confidence: of its interval, in (0, 1).
        least: records; a group that has surely fewer is measured no further.
        size: place of the sum that tells how many records there are.
        low, high: public bounds on its value; they may be infinite.

    Raises:
        RequirementError: a value is out of range.
    """

    values: Values
    kinds: Callable[[], FloatArray]
    half_width: float
    confidence: float
    least: float
    size: int = 0
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.half_width > 0.0:
            raise RequirementError("half_width", "be > 0", self.half_width)
        if not 0.0 < self.confidence < 1.0:
            raise RequirementError("confidence", "lie in (0, 1)", self.confidence)

    @property
    def is_bounded(self) -> bool:
        """Whether its public bounds alone are as near as asked."""
        return self.high - self.low <= 2.0 * self.half_width

    @property
    def missed(self) -> float:
        """The probability with which the interval may miss."""
        return 1.0 - self.confidence

    @property
    def unit(self) -> float:
        """The half-width of a sum times its cost for a record of weight 1, in epsilon."""
        return -math.log(self.missed)

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
