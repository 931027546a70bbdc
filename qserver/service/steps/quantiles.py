"""The steps that ask the counts behind quantiles, extremes and numbers of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from qserver.answering.quantiles import OrderKnown, OrderOf, QuantileAsked, Term, TermKnown
from qserver.inference.quantiles.quantile import Quantile
from qserver.inference.quantiles.search import table_at_most
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question
from qserver.query.requirement import MAX_LENGTH, MIN_LENGTH, Requirement
from qserver.query.sql.exactness import least_base
from qserver.query.sql.statement import Statement
from qserver.query.sql.statistics.smooth_functions import OfSeveral, Place, order_asked
from qserver.records.privacy.noise_law import NoiseLaw
from qserver.service.cache.quantiles import Counts
from qserver.service.steps.search import ROOM, SearchSteps

if TYPE_CHECKING:
    from qserver.service.service import Service


@dataclass(frozen=True)
class _Asked:
    """A number, and the exactness of each of its terms."""

    of: OrderOf
    terms: list[Term]

    @property
    def at_most(self) -> list[Counts]:
        """All tables that may be asked."""
        return [
            Counts(term.asked, term.number, table_at_most(term.number))
            for term in self.terms
            if isinstance(term.asked, QuantileAsked) and isinstance(term.number, Quantile)
        ]


def _asked(statement: Statement, law: NoiseLaw) -> dict[Place, _Asked]:
    least, found = least_base(statement.clauses.assuming, 0.0), dict[Place, _Asked]()
    for place, one in order_asked(statement).items():
        of = OrderOf.of(one.order, one.queries, one.confidence, law)
        found[place] = _Asked(of, of.numbers(one.half_width, least))
    return found


class OrderSteps(SearchSteps[_Asked, OrderKnown, list[Counts]]):
    """The numbers of one statement told by places in order, on one dataset.

    Raises:
        SqlError: the statement has no length.
    """

    def __init__(self, history: Service, name: str, statement: Statement) -> None:
        self._law = history.smooth.law(name)
        super().__init__(_asked(statement, self._law))
        self._history, self._name = history, name
        self._measure = statement.clauses.measure
        self.look()

    def look(self) -> None:
        """Read the present history."""
        if self._asked:
            self._view = self._history.order.view(self._name)
            self._known = {p: self._view.of(one.of) for p, one in self._asked.items()}
        self._next = {}

    def next_step(self) -> tuple[Question, ...]:
        """The counts to ask now."""
        return self._questions(one for place in self.open_places for one in self._tables(place))

    def at_most(self) -> tuple[Question, ...]:
        """All counts that may be asked for numbers still open."""
        open_ = filter(self._is_open, self._asked)
        return self._questions(one for place in open_ for one in self._asked[place].at_most)

    def as_known(self) -> OfSeveral:
        """The known half-widths of the counts that the text names; as wide as unknown elsewhere.

        The numbers of values follow from the counts that are asked.
        """
        return self._halves(lambda _place, _term, part: part.halves)

    def last_halves(self) -> OfSeveral:
        """The sufficient half-widths, or the last ones to ask."""
        return self._halves(lambda _place, term, part: term.last_halves(part))

    def next_halves(self) -> OfSeveral:
        """The half-widths to ask now."""
        chosen = self.open_places
        return self._halves(
            lambda place, term, part: term.next_halves(part) if place in chosen else part.halves
        )

    def _halves(
        self, of: Callable[[Place, Term, TermKnown], tuple[float, ...]]
    ) -> dict[Place, tuple[float, ...]]:
        """The half-widths of each term; a known one is asked with some room."""
        found = dict[Place, tuple[float, ...]]()
        for place, one in self._asked.items():
            halves = list[float]()
            for term, part in zip(one.terms, self._known[place].parts, strict=True):
                pairs = zip(of(place, term, part), part.halves, strict=True)
                halves += [known * ROOM if half >= known else half for half, known in pairs]
            found[place] = tuple(halves)
        return found

    def _is_open(self, place: Place) -> bool:
        return self._known[place].state(self._asked[place].terms) == "open"

    def _price(self, place: Place) -> float:
        pairs = zip(self._asked[place].terms, self._known[place].parts, strict=True)
        counts = sum(term.price(part) for term, part in pairs)
        of = self._law.charge_of_sharpness
        return counts + sum(of(one.table.rate) for one in self._tables(place))

    def _tables(self, place: Place) -> list[Counts]:
        if place not in self._next:
            one = self._asked[place]
            self._next[place] = self._view.tables(one.of, one.terms)
        return self._next[place]

    def _questions(self, tables: Iterable[Counts]) -> tuple[Question, ...]:
        """The counts of some tables, each once, at the most exact of its lengths."""
        found = dict[tuple[LinearQuery, float], float]()
        for one in tables:
            length = 2.0 * one.number.unit / one.table.rate
            for start, stop in pairwise(one.table.stops):
                query = one.asked.of.count(one.asked.base, start, stop)
                if not query.is_zero:
                    key = query, one.asked.confidence
                    found[key] = min(length, found.get(key, MAX_LENGTH))
        return tuple(
            Question(query, Requirement(max(length, MIN_LENGTH), confidence), self._measure)
            for (query, confidence), length in found.items()
        )
