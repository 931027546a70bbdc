"""The number of groups that pass a test, by what history knows of their counts.

All groups are measured roughly, and then more and more exactly, until so few are still in doubt as
WITHIN allows. They are disjoint, so one costs as much as all. Where WITHIN is about counts, a group
whose counts are surely under 2 w is in doubt no more.

So the last look judges all groups, and it errs with nearly all that the number may miss with. The
looks before have the rest. One of them ends the search too early only if all groups but 2 w are
judged, and at least one of 2 w + 1 wrongly, that only chance could judge. So they judge by
intervals that are `caution` times as long. With h the half-width of an error at miss probability d,
the error passes k h with d^k at most, since the logarithm of the tail of a log-concave law is
concave, and 0 at 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from qserver.answering.order.quantiles import Ends
from qserver.inference.engine import InferenceEngine
from qserver.inference.order.search import State
from qserver.inference.posterior.posterior import Posterior
from qserver.query.linear import LinearQuery
from qserver.query.primitive import primitive
from qserver.query.sql.combined.function import KnownPart
from qserver.query.sql.combined.passing import LAST_LOOK, Passing
from qserver.records.statement import EXACT, OF_ESTIMATOR, Statement

_FIRST = 16.0
"""The first step asks for intervals this many times as long as the shortest that are asked."""
_FACTORS = (0.8, 0.64, 0.5, 0.4, 0.32, 0.25)
"""A step shortens intervals to the largest of these parts by which it may end, or the least."""
_LOOKS = 4.0
"""So many looks are before the last in nearly all cases."""
_ROUNDING = 1.0 + 1e-6
_UNKNOWN = KnownPart(0.0, -math.inf, math.inf)


@dataclass(frozen=True)
class GroupsAsked:
    """The number of groups that pass, by the counts of each in turn.

    Args:
        confidence: of the number's interval.
    """

    queries: tuple[LinearQuery, ...]
    of: Passing
    confidence: float

    def number(self, half_width: float, _least: float) -> Groups:
        """The number that is sought."""
        unit = -math.log(self.of.part_missed(1.0 - self.confidence))
        allowed = math.floor(2.0 * half_width) if self.of.has_steps else 0
        by_chance = min(allowed + 1, self.of.n_groups) / self.of.n_groups
        more = max(_LOOKS * by_chance * LAST_LOOK / (1.0 - LAST_LOOK), 1.0)
        caution = 1.0 + math.log(more) / unit
        return Groups(self.of, half_width, self.of.width(half_width), unit, caution)

    @property
    def unknown(self) -> GroupsKnown:
        """What is known where history says nothing."""
        return GroupsKnown(self.of, (_UNKNOWN,) * len(self.queries), OF_ESTIMATOR)

    def laws(self, engine: InferenceEngine) -> GroupsLaws | None:
        """What the engine's history tells of each count."""
        confidence = 1.0 - self.of.part_missed(1.0 - self.confidence)
        found = list[Posterior | None]()
        for row in map(primitive, self.queries):
            if row.is_zero:
                found.append(Posterior(0.0, np.zeros(0), 0.0))
                continue
            known = engine.estimate(row, confidence=confidence, is_searched=False)
            found.append(None if known is None else known.posterior.scaled(row.multiplier))
        return GroupsLaws(self, tuple(found))


@dataclass(frozen=True)
class Groups:
    """A number of groups, and how exactly it is asked.

    Args:
        half_width: of the number, or of the counts where WITHIN is about these.
        least_half: no count is asked more exactly.
        unit: the half-width of a count times the loss of a record by it, in epsilon.
        caution: intervals are so many times as long for looks before the last.
    """

    of: Passing
    half_width: float
    least_half: float
    unit: float
    caution: float

    def open_groups(self, parts: Sequence[KnownPart]) -> list[int]:
        """The groups to measure further; none where so few are in doubt as may be."""
        judged = self.of.judged([self._cautious(part) for part in parts])
        size, doubtful = len(self.of.columns), [i for i, one in enumerate(judged) if one.is_open]
        if self.of.has_steps and len(doubtful) <= 2.0 * self.half_width:
            return []
        return [i for i in doubtful if self._is_open(parts[i * size : (i + 1) * size])]

    def _cautious(self, part: KnownPart) -> KnownPart:
        """A count with the interval by which a look judges it."""
        if part.half_width <= self.least_half * _ROUNDING or math.isinf(part.half_width):
            return part
        half = part.half_width * self.caution
        return KnownPart(part.estimate, part.estimate - half, part.estimate + half)

    def _is_open(self, group: Sequence[KnownPart]) -> bool:
        if all(part.half_width <= self.least_half * _ROUNDING for part in group):
            return False
        return self.of.has_steps or any(part.high >= 2.0 * self.half_width for part in group)

    def shortened(self, parts: Sequence[KnownPart], factor: float) -> list[KnownPart]:
        """The counts with intervals so short, about the same estimates, but none too short."""
        found = list[KnownPart]()
        for part in parts:
            half = self.next_half(part, factor)
            found.append(KnownPart(part.estimate, part.estimate - half, part.estimate + half))
        return found

    def next_half(self, part: KnownPart, factor: float) -> float:
        """Such a part of the half-width of a count; where it is not known, that of the first."""
        now = part.half_width * factor if math.isfinite(part.half_width) else math.inf
        return min(max(now, self.least_half), _FIRST * self.least_half, part.half_width)


@dataclass(frozen=True)
class GroupsKnown:
    """What is known of a number of groups.

    Args:
        parts: its counts, at the confidence that they need.
    """

    of: Passing
    parts: tuple[KnownPart, ...]
    statement: Statement

    @property
    def is_known(self) -> bool:
        """Whether history says something of all counts."""
        return all(map(math.isfinite, self.halves))

    @property
    def halves(self) -> tuple[float, ...]:
        """Half-widths of the counts, infinite where they are not known."""
        return tuple(part.half_width for part in self.parts)

    @property
    def ends(self) -> Ends:
        """The interval, and a value in it."""
        found = self.of.value(self.parts)
        middle = None if found.estimate is None else Fraction(found.estimate)
        return Ends(Fraction(found.low), middle, Fraction(found.high))

    def state(self, number: Groups) -> State:
        """Whether the number, as exactly as it is asked, is to be measured further."""
        return "open" if number.open_groups(self.parts) else "met"

    def next_halves(self, number: Groups) -> tuple[float, ...]:
        """The half-widths of the counts to ask for next."""
        ends = (f for f in _FACTORS if not number.open_groups(number.shortened(self.parts, f)))
        factor = next(ends, _FACTORS[-1])
        return tuple(number.next_half(part, factor) for part in self.parts)


@dataclass(frozen=True)
class GroupsLaws:
    """The laws of the counts; None where history does not tell one."""

    one: GroupsAsked
    laws: tuple[Posterior | None, ...]

    def known(self, missed: float) -> GroupsKnown:
        """What they say of a number whose interval may miss with this probability."""
        tail = self.one.of.part_missed(missed) / 2.0
        parts = tuple(_UNKNOWN if law is None else _part(law, tail) for law in self.laws)
        is_exact = all(law is not None and law.is_exact for law in self.laws)
        return GroupsKnown(self.one.of, parts, EXACT if is_exact else OF_ESTIMATOR)


def _part(law: Posterior, tail: float) -> KnownPart:
    return KnownPart(law.estimate, law.low_at(tail), law.high_at(tail))
