"""The steps in which the counts behind numbers of groups, and other judged sums, are asked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qserver.query.linear import LinearQuery
from qserver.query.sql.combined.asked import KnownSeveral, OfSeveral, SeveralAsked, several_asked
from qserver.query.sql.combined.function import KnownPart, judging
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.exactness import least_base
from qserver.records.answer import Offer
from qserver.service.cells.search_steps import ROOM

if TYPE_CHECKING:
    from qserver.service.service import Service


class SeveralSteps:
    """The functions in one statement that intervals of sums tell, on one dataset.

    The shortest intervals are fixed at the beginning: no step asks for shorter ones.

    Raises:
        SqlError: the statement has no length.
    """

    def __init__(self, history: Service, name: str, statement: Statement) -> None:
        self._history = history
        self._name = name
        self._statement = statement
        self._asked = several_asked(statement)
        self._known = self._look()
        self._targets = {
            place: one.target(self._base(place, one)) for place, one in self._asked.items()
        }

    @property
    def is_none(self) -> bool:
        """Whether there is none that is asked in steps."""
        return not any(one.cell.function.has_steps for one in self._asked.values())

    @property
    def goes_on(self) -> bool:
        """Whether the interval of one of them is still too long."""
        return not all(map(self._is_met, self._asked))

    def look(self) -> None:
        """Read the present history."""
        self._known = self._look()

    def next_step(self) -> OfSeveral:
        """The half-widths of the sums to ask for now."""
        return {
            place: self._known_halves(place)
            if self._is_met(place)
            else target.next_step(self._known[place])
            if self._asked[place].cell.function.has_steps
            else target.most
            for place, target in self._targets.items()
        }

    def last_step(self, *, at_once: bool) -> OfSeveral:
        """Those that suffice, or are asked at most.

        Args:
            at_once: whether all intervals must hold at once, so that nothing known suffices.
        """
        return {
            place: target.most
            if at_once or not self._asked[place].cell.function.has_steps or not self._is_met(place)
            else self._known_halves(place)
            for place, target in self._targets.items()
        }

    @property
    def is_known(self) -> bool:
        """Whether history says something of all sums that are asked in steps."""
        return all(
            math.isfinite(part.half_width)
            for place, one in self._asked.items()
            if one.cell.function.has_steps
            for part in self._known[place]
        )

    def as_known(self) -> OfSeveral:
        """The half-widths of what history knows; those asked at most where WITHIN is about sums."""
        return {place: self._known_halves(place) for place in self._asked}

    def _is_met(self, place: tuple[int, int]) -> bool:
        has_steps = self._asked[place].cell.function.has_steps
        return not has_steps or self._targets[place].is_met(self._known[place])

    def _known_halves(self, place: tuple[int, int]) -> tuple[float, ...]:
        if not self._asked[place].cell.function.has_steps:
            return self._targets[place].most
        return tuple(part.half_width * ROOM for part in self._known[place])

    def _base(self, place: tuple[int, int], one: SeveralAsked) -> float:
        """Least number of records, where that bounds what is asked."""
        if not one.cell.function.has_base:
            return 0.0
        known = judging(one.cell.function).records(self._known[place]).low
        return least_base(self._statement.clauses.assuming, known)

    def _look(self) -> KnownSeveral:
        insight, offers = self._history.insight, dict[tuple[LinearQuery, float], Offer | None]()

        def known(query: LinearQuery, confidence: float) -> KnownPart:
            key = query, confidence
            if key not in offers:
                offers[key] = insight.offer(self._name, query, confidence=confidence)
            offer = offers[key]
            if offer is None:
                return KnownPart(0.0, -math.inf, math.inf)
            return KnownPart(offer.estimate, offer.low, offer.high)

        return {
            place: tuple(known(query, one.part_confidence) for query in one.cell.queries)
            for place, one in self._asked.items()
        }
