"""The interface of functions of several sums, and the cell of a table that holds one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from qserver.query.linear_query import LinearQuery
from qserver.query.sql.functions.thresholds import QuantileOf

STATED_COUNT = Fraction(100)
"""The half-width of a count that a statement without WITHIN is priced at."""


@dataclass(frozen=True)
class Binning:
    """The error of bins: an attribute has the value of its bin's middle.

    Args:
        error: most distance of the true value from the value by the middles of bins.
        of: the value with the error: of each `record`, of each record of the `numerator`, the
            `average` itself, or the `value` itself.
    """

    error: Fraction
    of: Literal["record", "numerator", "average", "value"]


@dataclass(frozen=True)
class KnownPart:
    """One of the sums: its estimate and its interval; the ends may be infinite."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, low: float | None, high: float | None) -> KnownPart:
        """A sum from an interval; open ends are None."""
        return cls(estimate, -math.inf if low is None else low, math.inf if high is None else high)

    @property
    def half_width(self) -> float:
        """Half the length of its interval."""
        return (self.high - self.low) / 2.0


@dataclass(frozen=True)
class Combination:
    """A value of the function with its interval; ends may be infinite, the estimate None."""

    estimate: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Kinks:
    """A number as a kinked function, such as a maximum, of smooth numbers.

    Args:
        pieces: from the sums, shape (k, n), to these numbers, shape (m, n); NaN where one has no
            value.
        ends: from the ends of intervals of these, shape (m,), to those of the number.
        rivals: places of sums whose greatest counts the records.
        needs_all: whether the least counts them: each number has separate records.
    """

    pieces: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ends: Callable[[NDArray[np.float64], NDArray[np.float64]], tuple[float, float]]
    rivals: tuple[int, ...]
    needs_all: bool = False


@dataclass(frozen=True)
class Smooth:
    """A function that is nearly linear within the errors of its sums.

    Args:
        values: from the sums, shape (k, n), to its values, shape (n,); NaN where it has none.
        low, high: public bounds on its value; they may be infinite.
        size: place of the sum that counts the records.
        hides: whether bins alone determine its interval under exact sums.
        is_steady: whether its slopes are constant, so that the exactness of its sums does not
            depend on the number of records.
        kinks: the kinked function, if it is not smooth itself.
    """

    values: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    low: float
    high: float
    size: int = 0
    hides: bool = False
    is_steady: bool = False
    kinks: Kinks | None = None


class OfGroups(Protocol):
    """The number of groups that pass a test of their counts."""

    @property
    def n_counts(self) -> int:
        """Number of counts of all groups."""
        ...

    def part_missed(self, missed: float) -> float:
        """Miss probability of each count for this miss probability of the number."""
        ...


@dataclass(frozen=True)
class Order:
    """A number told by places in order: a sum of quantiles, extremes and numbers of groups.

    Each term has a factor.

    Args:
        terms: factor, place of the first query, and what is told: of a quantile the query counts
            the values, and groups that pass have one for each of their counts.
        by: an added number.
    """

    terms: tuple[tuple[Fraction, int, QuantileOf | OfGroups], ...]
    by: Fraction = Fraction(0)

    @property
    def counts_values(self) -> frozenset[int]:
        """Places of the queries that count the values of quantiles."""
        return frozenset(k for _, k, of in self.terms if isinstance(of, QuantileOf))

    def part_confidence(self, confidence: float) -> float:
        """Confidence of its sums' intervals, so that the number's holds with `confidence`."""
        own = 1.0 - (1.0 - confidence) / len(self.terms)
        groups = [of for _, _, of in self.terms if not isinstance(of, QuantileOf)]
        return max([confidence, *(1.0 - of.part_missed(1.0 - own) for of in groups)])


class FunctionOfSums(ABC):
    """A function of several sums, with an interval that holds if those of the sums do.

    A function neither smooth nor told by places in order uses simultaneous intervals of its sums.
    """

    @property
    def has_steps(self) -> bool:
        """Whether WITHIN is about the value itself. Otherwise it is about counts behind it."""
        return True

    @property
    @abstractmethod
    def stated_half_width(self) -> Fraction:
        """The half-width for the price of a statement without WITHIN."""

    @property
    def smooth(self) -> Smooth | None:
        """Its smooth function, if it has one."""
        return None

    @property
    def order(self) -> Order | None:
        """Its sum of quantiles and numbers of groups, if it is one."""
        return None

    @abstractmethod
    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The value and its interval, from the sums and theirs."""


def public_range(of: FunctionOfSums, n_parts: int) -> tuple[float, float]:
    """A function's range without knowledge of its sums; ends may be infinite."""
    found = of.smooth or of.value([KnownPart(0.0, -math.inf, math.inf)] * n_parts)
    return found.low, found.high


def needs_records(of: FunctionOfSums) -> bool:
    """Whether the exactness of its sums depends on the number of records."""
    terms = of.order.terms if of.order is not None else ()
    told = (one for _, _, one in terms if isinstance(one, QuantileOf))
    if of.smooth is not None:
        return not of.smooth.is_steady
    return not all(one.is_extreme for one in told)


@dataclass(frozen=True)
class Combined:
    """A cell that is a function of several linear queries.

    Args:
        binning: None if bins make no error.
    """

    queries: tuple[LinearQuery, ...]
    function: FunctionOfSums
    binning: Binning | None = None
