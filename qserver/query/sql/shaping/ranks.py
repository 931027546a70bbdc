"""RANK and its like over groups, by released numbers, with intervals that hold.

The rank of a group is one more than the number of greater numbers. If all intervals hold at once,
numbers with wholly greater intervals are greater, and those with wholly smaller ones are smaller.
This bounds every group's rank at once, after any choice by the ranks. DENSE_RANK counts distinct
numbers: there are at least as many greater ones as disjoint intervals. Other functions of a rank
rise with it, so their ends follow.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

RankKind = Literal["RANK", "ROW_NUMBER", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE"]


@dataclass(frozen=True)
class Rank:
    """A column of ranks.

    Args:
        name: what it is called.
        column: index of the column of numbers.
        descending: whether the greatest number has rank 1.
        parties: per row of the whole table its party's number; None for a row with NULL among its
            groups, which has no rank.
        kind: as SQL calls it.
        n_tiles: of NTILE.
    """

    name: str
    column: int
    descending: bool
    parties: tuple[int | None, ...]
    kind: RankKind = "RANK"
    n_tiles: int = 1


@dataclass(frozen=True)
class Ranked:
    """A rank with its interval; no estimate if any is possible, no ends without a rank."""

    estimate: float | None
    low: float | None
    high: float | None


_NO_RANK = Ranked(None, None, None)


Ends = tuple[float | None, float | None]


def ranked(
    estimates: Sequence[float | None], intervals: Sequence[Ends], rank: Rank
) -> list[Ranked]:
    """The rank of each row.

    Args:
        intervals: of the numbers, simultaneous; an open end is None.
    """
    sign = -1.0 if rank.descending else 1.0
    values = [None if e is None else sign * e for e in estimates]
    ends = [_signed(low, high, sign) for low, high in intervals]
    parties = dict[int, list[int]]()
    for i, party in enumerate(rank.parties):
        if party is not None:
            parties.setdefault(party, []).append(i)
    among = {
        party: _Party.of([values[i] for i in rows], [ends[i] for i in rows])
        for party, rows in parties.items()
    }
    found, seen = list[Ranked](), Counter[tuple[int, float]]()
    for party, value, (low, high) in zip(rank.parties, values, ends, strict=True):
        if party is None:
            found.append(_NO_RANK)
            continue
        one, estimate = among[party], None
        first, last = 1 + bisect_left(one.highs, low), bisect_right(one.lows, high)
        is_any = 1 == first < last == one.n
        if value is not None and not is_any:
            estimate = one.shown(one.place(value, rank, seen[party, value]), rank)
            seen[party, value] += 1
        if rank.kind == "DENSE_RANK":
            first = 1 + bisect_left(one.apart, low)
        found.append(Ranked(estimate, one.shown(first, rank), one.shown(last, rank)))
    return found


@dataclass(frozen=True)
class _Party:
    """The rows of one party: their numbers and both ends, each sorted.

    Args:
        apart: upper ends of a largest set of disjoint intervals.
    """

    values: list[float]
    lows: list[float]
    highs: list[float]
    apart: list[float]

    @classmethod
    def of(cls, values: Iterable[float | None], ends: Sequence[tuple[float, float]]) -> _Party:
        """The rows of these numbers and intervals."""
        apart = list[float]()
        for low, high in sorted(ends, key=lambda one: one[1]):
            if not apart or low > apart[-1]:
                apart.append(high)
        known = sorted(value for value in values if value is not None)
        return cls(known, sorted(e[0] for e in ends), sorted(e[1] for e in ends), apart)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.lows)

    def place(self, value: float, rank: Rank, n_equal: int) -> int:
        """The place of a number; `n_equal` equal ones precede it in the table."""
        if rank.kind == "DENSE_RANK":
            return 1 + len(set(self.values[: bisect_left(self.values, value)]))
        if rank.kind == "CUME_DIST":
            return bisect_right(self.values, value)
        is_alone = rank.kind in ("ROW_NUMBER", "NTILE")
        return 1 + bisect_left(self.values, value) + (n_equal if is_alone else 0)

    def shown(self, place: int, rank: Rank) -> float:
        """The shown rank of a place, from 1."""
        if rank.kind == "PERCENT_RANK":
            return (place - 1) / (self.n - 1) if self.n > 1 else 0.0
        if rank.kind == "CUME_DIST":
            return place / self.n
        if rank.kind == "NTILE":
            size, n_longer = divmod(self.n, rank.n_tiles)
            longer = n_longer * (size + 1)
            if place <= longer:
                return float((place - 1) // (size + 1) + 1)
            return float(n_longer + (place - 1 - longer) // size + 1)
        return float(place)


def _signed(low: float | None, high: float | None, sign: float) -> tuple[float, float]:
    least = float("-inf") if low is None else low
    most = float("inf") if high is None else high
    return (least, most) if sign > 0 else (-most, -least)
