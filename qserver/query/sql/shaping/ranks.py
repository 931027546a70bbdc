"""RANK and ROW_NUMBER over groups, by released numbers, with intervals that hold.

The rank of a group is one more than how many numbers are above its own. Where the intervals of all
numbers hold at once, those that lie wholly above one are above it in truth, and those wholly below
it are below. So the rank lies between one more than the first and all but the second, for every
group at once, whatever was chosen by the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rank:
    """A column of ranks.

    Args:
        name: what it is called.
        column: by which column of numbers, by its index.
        descending: whether the greatest number has rank 1.
        parties: per row of the whole table which rows it is ranked among: those of the same number.
        breaks_ties: whether equal numbers get ranks of their own, as ROW_NUMBER gives.
    """

    name: str
    column: int
    descending: bool
    parties: tuple[int, ...]
    breaks_ties: bool = False


@dataclass(frozen=True)
class Ranked:
    """A rank with its interval; no estimate where the number is not known."""

    estimate: float | None
    low: float
    high: float


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
    found = []
    for i, (value, (low, high)) in enumerate(zip(values, ends, strict=True)):
        others = [j for j, p in enumerate(rank.parties) if p == rank.parties[i] and j != i]
        before = [j for j in others if ends[j][1] < low]
        after = [j for j in others if ends[j][0] > high]
        found.append(
            Ranked(
                None if value is None else 1.0 + _n_before(values, value, i, others, rank),
                1.0 + len(before),
                1.0 + len(others) - len(after),
            )
        )
    return found


def _n_before(
    values: Sequence[float | None], value: float, i: int, others: Sequence[int], rank: Rank
) -> int:
    known = [(other, j) for j in others if (other := values[j]) is not None]
    return sum(
        other < value or (rank.breaks_ties and other == value and j < i) for other, j in known
    )


def _signed(low: float | None, high: float | None, sign: float) -> tuple[float, float]:
    least = float("-inf") if low is None else low
    most = float("inf") if high is None else high
    return (least, most) if sign > 0 else (-most, -least)
