"""Counts and sums with a length relative to themselves, such as 2 percent.

The allowed length depends on the private number. So it is asked in steps, as smooth numbers are:
roughly first, then as exactly as the greatest possible number needs, then as the least possible one
needs. No step asks for more than the text's assumed least number needs, which bounds the cost. The
lengths follow from released answers alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from qserver.query.linear_query import LinearQuery
from qserver.query.sql.exactness import DEFAULT_CONFIDENCE, STATED_BASE
from qserver.query.sql.statement import Statement, Sum

_FIRST = 16.0
"""The first step asks for an interval at most this many times as long as the last."""
_STEP = 0.97
"""A step must shorten the interval to this part at least, or the next is taken at once."""
_ROUNDING = 1e-9
"""A half-width that is longer by this part is as asked: products are rounded."""
_AIM = 0.98
"""Part of the length to aim at: an answer may be a little longer than asked."""


@dataclass(frozen=True)
class Relative:
    """A count or sum with a relative length."""

    query: LinearQuery
    part: float
    confidence: float


@dataclass(frozen=True)
class KnownSum:
    """A number's interval from history; ends are infinite if unknown."""

    low: float = -math.inf
    high: float = math.inf
    estimate: float = 0.0

    @property
    def half_width(self) -> float:
        """Half the length of its interval."""
        return (self.high - self.low) / 2.0

    @property
    def nearest(self) -> float:
        """The least possible size."""
        return max(0.0, self.low, -self.high)

    @property
    def farthest(self) -> float:
        """The greatest possible size."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class RelativeTarget:
    """The required exactness of a number: within a part of itself.

    Args:
        least: the least size; smaller numbers are asked as if they had it.
    """

    part: float
    least: float

    @property
    def most(self) -> float:
        """The half-width that suffices in every case."""
        return self.part * self.least

    def is_met(self, known: KnownSum) -> bool:
        """Whether the interval is short enough for the released number."""
        room = self.part * max(self.least, abs(known.estimate))
        return known.half_width <= room * (1.0 + _ROUNDING)

    def next_half(self, known: KnownSum) -> float:
        """The half-width to ask for now: never below `most`."""
        if not math.isfinite(known.half_width):
            return _FIRST * self.most
        best, worst = (
            _AIM * self.part * max(self.least, size) for size in (known.farthest, known.nearest)
        )
        found = best if best <= _STEP * known.half_width else min(worst, _STEP * known.half_width)
        return max(found, self.most)


def confidence_of(statement: Statement, column: int) -> float:
    """The confidence of each interval of a column."""
    return float(statement.exactness_of(column).confidence or DEFAULT_CONFIDENCE)


def relatives(statement: Statement) -> dict[Relative, RelativeTarget]:
    """Counts and sums with relative lengths; none for simultaneous intervals."""
    found = dict[Relative, RelativeTarget]()
    for row in statement.rows:
        for k, cell in enumerate(row.cells):
            part = statement.exactness_of(k).part
            if part is None or not isinstance(cell, Sum):
                continue
            least = statement.clauses.assuming or STATED_BASE
            target = RelativeTarget(float(part), float(least))
            found[relative_of(cell, statement, k)] = target
    return found


def relative_of(cell: Sum, statement: Statement, column: int) -> Relative:
    """The required exactness of a count or sum with a relative length."""
    part = statement.exactness_of(column).part
    return Relative(cell.query, float(part or 0), confidence_of(statement, column))
