"""What a function of several sums must know, and the cell of a table that holds one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from qserver.query.asking.marks import Marks
from qserver.query.linear import LinearQuery

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


class FunctionOfSums(Protocol):
    """A function of several sums, with an interval that holds if those of the sums do.

    Attributes:
        has_steps: whether WITHIN is about the value, whose length is known only once the sums are
            released. Otherwise it is about the sums, and asked at once.
        has_base: whether how exactly the sums are measured depends on the number of records.
        stated_half_width: what a statement without WITHIN is priced at.
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

    def value(self, parts: Sequence[KnownPart]) -> Combination:
        """The value and its interval, from the sums and theirs."""
        ...

    def fitted(self, most: int, /) -> Fitted | None:
        """The function of at most so many of its sums; None where it needs them all."""
        ...


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
