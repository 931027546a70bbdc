"""What a function of several sums must know, and the cell of a table that holds one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from qserver.query.asking.marks import Marks
from qserver.query.linear import LinearQuery
from qserver.query.sql.combined.thresholds import QuantileOf

if TYPE_CHECKING:
    from qserver.query.sql.statement import Binning


@dataclass(frozen=True)
class KnownPart:
    """One of the sums: its estimate and its interval; the ends may be infinite."""

    estimate: float
    low: float
    high: float

    @classmethod
    def of(cls, estimate: float, low: float | None, high: float | None) -> KnownPart:
        """The sum with an interval whose open ends are None."""
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
class Smooth:
    """A function that is nearly linear within the errors of its sums.

    Args:
        values: from the sums, shape (k, n), to its values, shape (n,); not a number where it has
            none.
        low, high: public bounds on its value; they may be infinite.
        size: place of the sum that tells how many records there are.
        hides: whether its interval by exact sums is that which bins leave open.
    """

    values: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    low: float
    high: float
    size: int = 0
    hides: bool = False


@dataclass(frozen=True)
class Order:
    """A number that is told by places in order: the sum of quantiles, each times a factor.

    Args:
        terms: factor, place of the query that counts the values, and the quantile of these.
        by: a number that is added.
    """

    terms: tuple[tuple[Fraction, int, QuantileOf], ...]
    by: Fraction = Fraction(0)


class FunctionOfSums(Protocol):
    """A function of several sums, with an interval that holds if those of the sums do.

    Attributes:
        has_steps: whether WITHIN is about the value, whose length is known only once the sums are
            released. Otherwise it is about the sums, and asked at once.
        has_base: whether how exactly the sums are measured depends on the number of records.
        stated_half_width: what a statement without WITHIN is priced at.
        smooth: how it is calculated from draws, if it is smooth.
        order: of which quantiles it is the sum, if it is. A function that is neither smooth nor
            such a sum is told by the intervals of its sums.
    """

    @property
    def has_steps(self) -> bool:
        """Whether WITHIN is about the value itself."""
        ...

    @property
    def has_base(self) -> bool:
        """Whether the number of records matters to `widths`."""
        ...

    @property
    def stated_half_width(self) -> Fraction:
        """The half-width that a statement without WITHIN is priced at."""
        ...

    @property
    def marks(self) -> tuple[Marks | None, ...]:
        """Per sum the two numbers of which only its side matters; None where its interval does."""
        ...

    @property
    def smooth(self) -> Smooth | None:
        """How it is calculated from draws, if it is smooth."""
        ...

    @property
    def order(self) -> Order | None:
        """Of which quantiles it is the sum, if it is."""
        ...

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The value and its interval, from the sums and theirs."""
        ...

    def fitted(self, most: int, /) -> Fitted | None:
        """The function of at most so many of its sums; None where it needs them all."""
        ...


def public_range(of: FunctionOfSums, n_parts: int) -> tuple[float, float]:
    """All that a function can be where nothing is known of its sums; ends may be infinite."""
    found = of.smooth or of.value([KnownPart(0.0, -math.inf, math.inf)] * n_parts)
    return found.low, found.high


class Judging(FunctionOfSums, Protocol):
    """A function that is told by intervals of its sums, each at a confidence of its own."""

    def part_confidence(self, confidence: float) -> float:
        """The confidence of each sum's interval so that the value's holds with `confidence`."""
        ...

    def widths(self, half_width: float, base: float, /) -> tuple[float, ...]:
        """The half-widths of the sums that are asked at most, for `base` records or more.

        `base` is 0 where it does not matter.
        """
        ...

    def records(self, parts: Sequence[KnownPart]) -> KnownPart:
        """How many records have a value, by what is known of the sums."""
        ...


def is_judged(function: FunctionOfSums) -> bool:
    """Whether it is told by the intervals of its sums."""
    return function.smooth is None and function.order is None


def judging(function: FunctionOfSums) -> Judging:
    """The function, which is told by the intervals of its sums."""
    return cast("Judging", function)


@dataclass(frozen=True)
class Fitted:
    """A function of some of the sums of another one, by their places."""

    places: tuple[int, ...]
    function: FunctionOfSums


@dataclass(frozen=True)
class Combined:
    """A cell that is a function of several linear queries.

    Args:
        binning: None if bins make no error.
    """

    queries: tuple[LinearQuery, ...]
    function: FunctionOfSums
    binning: Binning | None = None
