"""RANK and ROW_NUMBER over groups, by released numbers, with intervals that hold.

The rank of a group is one more than how many numbers are above its own. Where the intervals of all
numbers hold at once, those that lie wholly above one are above it in truth, and those wholly below
it are below. So the rank lies between one more than the first and all but the second, for every
group at once, whatever was chosen by the ranks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rank:
    """A column of ranks.

    Args:
        name: what it is called.
        column: by which column of numbers, by its index.
        descending: whether the greatest number has rank 1.
        parties: per row of the whole table which rows it is ranked among: those of the same
            number; None for a row with NULL among its groups, which has no rank.
        breaks_ties: whether equal numbers get ranks of their own, as ROW_NUMBER gives.
    """

    name: str
    column: int
    descending: bool
    parties: tuple[int | None, ...]
    breaks_ties: bool = False


@dataclass(frozen=True)
class Ranked:
    """A rank with its interval; no estimate where it may be any, no ends without rank."""

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
        intervals: of the numbers, all of which hold at once; an open end is None.
    """
    sign = -1.0 if rank.descending else 1.0
    values = [None if e is None else sign * e for e in estimates]
    ends = [_signed(low, high, sign) for low, high in intervals]
    parties = dict[int, list[int]]()
    for i, party in enumerate(rank.parties):
        if party is not None:
            parties.setdefault(party, []).append(i)
    among = {
        party: _Party(
            sorted(v for i in rows if (v := values[i]) is not None),
            sorted(ends[i][0] for i in rows),
            sorted(ends[i][1] for i in rows),
        )
        for party, rows in parties.items()
    }
    found, seen = list[Ranked](), Counter[tuple[int, float]]()
    for party, value, (low, high) in zip(rank.parties, values, ends, strict=True):
        if party is None:
            found.append(_NO_RANK)
            continue
        one, estimate = among[party], None
        if value is not None:
            # Equal numbers before this one in the table go first where ties are broken.
            n_equal = seen[party, value] if rank.breaks_ties else 0
            seen[party, value] += 1
            estimate = 1.0 + bisect_left(one.values, value) + n_equal
        first, last = 1.0 + bisect_left(one.highs, low), float(bisect_right(one.lows, high))
        if 1.0 == first < last == len(one.lows):
            estimate = None  # it may be any
        found.append(Ranked(estimate, first, last))
    return found


@dataclass(frozen=True)
class _Party:
    """The rows that are ranked among one another: their numbers and both ends, each in order."""

    values: list[float]
    lows: list[float]
    highs: list[float]


def _signed(low: float | None, high: float | None, sign: float) -> tuple[float, float]:
    least = float("-inf") if low is None else low
    most = float("inf") if high is None else high
    return (least, most) if sign > 0 else (-most, -least)
