"""The steps that ask the sums behind smooth numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qserver.answering.smooth_numbers import SmoothKnown, SmoothOf
from qserver.inference.arrays import FloatArray
from qserver.inference.smooth.number import Number
from qserver.inference.smooth.search import (
    next_widths,
    rough_widths,
    widths_at_most,
)
from qserver.query.linear_query import LinearQuery
from qserver.query.sql.exactness import least_base
from qserver.query.sql.statement import Statement
from qserver.query.sql.statistics.smooth_functions import OfSeveral, Place, smooth_asked
from qserver.records.privacy.noise_law import NoiseLaw
from qserver.service.steps.search import ROOM, SearchSteps

if TYPE_CHECKING:
    from qserver.service.service import Service

_SHORTER = 1.0 - 1e-3
"""A step shortens the interval of some sum to this part at least."""
_Halves = tuple[float, ...]


@dataclass(frozen=True)
class _Asked:
    """A smooth number and its asked exactness."""

    of: SmoothOf
    number: Number


def _asked(statement: Statement, law: NoiseLaw) -> dict[Place, _Asked]:
    least = least_base(statement.clauses.assuming, 0.0)
    found = dict[Place, _Asked]()
    for place, one in smooth_asked(statement).items():
        of = SmoothOf(one.cell.queries, one.cell.function, one.smooth, one.confidence, law)
        found[place] = _Asked(of, of.number(one.half_width, least))
    return found


class SmoothSteps(SearchSteps[_Asked, SmoothKnown, _Halves]):
    """The smooth numbers in one statement, on one dataset.

    What is quoted is fixed at the beginning.

    Raises:
        SqlError: the statement has no length.
    """

    def __init__(self, history: Service, name: str, statement: Statement) -> None:
        super().__init__(_asked(statement, history.smooth.law(name)))
        self._history, self._name = history, name
        self._look()
        self._assuming, self._begin = statement.clauses.assuming, self._known
        self._most = dict[Place, _Halves]()

    def look(self) -> None:
        """Read the present history."""
        self._look()
        for place in self._asked:
            if self._is_open(place) and not self._shortens(place):
                self._left_out.add(place)

    def _look(self) -> None:
        if self._asked:
            wanted = [one.of for one in self._asked.values()]
            self._view = self._history.smooth.view(self._name, wanted)
            self._known = {p: self._view.known(one.of) for p, one in self._asked.items()}
        self._next = {}

    def next_step(self) -> OfSeveral:
        """The half-widths of the sums to ask now."""
        chosen = set(self.open_places)
        return {
            p: self._next_halves(p) if p in chosen else self._known_halves(p) for p in self._asked
        }

    def last_step(self, *, at_once: bool) -> OfSeveral:
        """The sufficient half-widths, or the last ones to ask.

        Args:
            at_once: whether all intervals must hold at once, so that nothing known suffices.
        """
        return {
            p: self._at_most(p) if at_once or self._is_open(p) else self._known_halves(p)
            for p in self._asked
        }

    def as_known(self) -> OfSeveral:
        """The half-widths that history reaches."""
        return {place: self._known_halves(place) for place in self._asked}

    @property
    def by_rows(self) -> float:
        """The most that a record loses by rows for everything that may be asked.

        Groups apart cost what the dearest does, and the numbers of one group add up, but for those
        of the same sums: these are measured as exactly as any of them needs.
        """
        rises = dict[int, dict[tuple[LinearQuery, ...], tuple[Number, FloatArray]]]()
        for place, one in self._asked.items():
            if self._is_open(place):
                rise, group = self._rise(place), rises.setdefault(place[0], {})
                _, other = group.get(one.of.queries, (one.number, rise))
                group[one.of.queries] = one.number, np.maximum(rise, other)
        found = (sum(n.loss(rise) for n, rise in group.values()) for group in rises.values())
        return max(found, default=0.0)

    def _rise(self, place: Place) -> FloatArray:
        """The rise of each sum's charge from the known length to the last one to ask."""
        most, known = np.array(self._at_most(place)), np.array(self._known[place].half_widths)
        number = self._asked[place].number
        of = number.law.charge_of_sharpness
        with np.errstate(divide="ignore"):
            return np.maximum(of(number.unit / most) - of(number.unit / known), 0.0)

    def _is_open(self, place: Place) -> bool:
        known = self._known[place]
        return known.state(self._asked[place].number) == "open"

    def _shortens(self, place: Place) -> bool:
        return _shortens(self._next_halves(place), self._known[place].half_widths)

    def _next_halves(self, place: Place) -> _Halves:
        if place not in self._next:
            one, known = self._asked[place], self._known[place]
            law = self._view.law(one.of)
            if law is None:
                records = self._history.smooth.most_records(self._name)
                rough = np.maximum(rough_widths(one.number, records), self._at_most(place))
                self._next[place] = tuple(rough.tolist())
            else:
                found = next_widths(one.number, law).tolist()
                clipped = tuple(map(max, found, self._at_most(place)))
                # The last half-widths are asked first, as the quote assumed.
                found = clipped if _shortens(clipped, known.half_widths) else found
                self._next[place] = tuple(
                    width if width < half * _SHORTER else half * ROOM
                    for width, half in zip(found, known.half_widths, strict=True)
                )
        return self._next[place]

    def _known_halves(self, place: Place) -> _Halves:
        """The known half-widths; the last ones to ask where history lacks a sum."""
        known = self._known[place]
        if not known.is_known:
            return self._at_most(place)
        return tuple(half * ROOM for half in known.half_widths)

    def _price(self, place: Place) -> float:
        number = self._asked[place].number
        with np.errstate(divide="ignore"):
            return number.price(number.unit / np.array(self._next_halves(place)))

    def _at_most(self, place: Place) -> _Halves:
        """The last half-widths to ask, by what history knew at the beginning."""
        if place not in self._most:
            number = self._asked[place].number
            fewest = self._begin[place].size_at_least / number.per_record
            # A number that does not depend on the count of records needs one.
            least = least_base(self._assuming, fewest) if number.least else 1.0
            self._most[place] = tuple(widths_at_most(number, least).tolist())
        return self._most[place]


def _shortens(halves: Sequence[float], known: Sequence[float]) -> bool:
    """Whether some half-width is shorter than the known one."""
    return any(half < old * _SHORTER for half, old in zip(halves, known, strict=True))
