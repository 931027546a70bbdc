"""The parts of a statement with a SELECT of groups behind IN, and their cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from qserver.query.domain import Domain
from qserver.query.sql.cells import StatementQuestions
from qserver.query.sql.exactness import DEFAULT_CONFIDENCE, Exactness
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.shaping.inner_select import Values
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.relative_length import confidence_of
from qserver.query.sql.tables.unconfirmed import (
    UnconfirmedError,
    by_owner,
    stated,
    unconfirmed,
    with_default,
)
from qserver.service.cache.statements import StatementKey
from qserver.service.service import Price, Service
from qserver.service.statement_tables import StatementTables
from qserver.service.without_spending import not_spending

_OF_CHOICE = Fraction(3, 20)
"""Part of what an interval may miss with that the choice of groups has."""
Choice = tuple[Values, ...]
"""What each of the SELECTs gives."""


@dataclass(frozen=True)
class Parts:
    """The parts of one such statement as sent.

    Args:
        statement: with the widest choices.
    """

    statements: StatementTables
    service: Service
    asked: StatementKey
    statement: Statement
    domain: Domain

    @property
    def widest(self) -> Statement:
        """The rest with the widest choices."""
        return self._stricter(self.statement)

    def outer(self, chosen: Choice) -> Statement:
        """The rest with the choices of the SELECTs."""
        asked = self.asked
        found = parse_statement(asked.text, self.domain, dataset=asked.name, chosen=chosen)
        # The inner numbers decide which numbers WITHIN is for.
        return self._stricter(replace(found.measuring(asked.measure), inner=self.statement.inner))

    @property
    def inner(self) -> list[Statement]:
        """The tables of the numbers that the SELECTs choose by."""
        filled = self._filled(self.statement)
        columns = range(len(filled.columns))
        most = max((Fraction(str(confidence_of(filled, k))) for k in columns), default=None)
        confidence = 1 - (1 - (most or DEFAULT_CONFIDENCE)) * _OF_CHOICE / len(self.statement.inner)
        tables = [one.statement for one in self.statement.inner]
        return [
            self._filled(replace(one, clauses=replace(one.clauses, confidence=confidence)))
            for one in tables
        ]

    def dearest(self) -> Statement:
        """The rest with the dearest of some choices: the widest, the first half, every other one.

        History may know all groups together, and none of them.
        """
        found = [self.widest]
        for of in (_first_half, _every_other):
            chosen = tuple(frozenset(of(one.known)) for one in self.statement.inner)
            outer = self.outer(chosen)
            found += [outer] if outer.rows else []
        return max(found, key=lambda one: self.price(one).nano)

    def price(self, statement: Statement) -> Price:
        """The present price of a part."""
        within = self.service.within(self.asked.name)
        full = stated(statement, within)
        return self.statements.price(self.asked.name, full, by=self.asked.by)

    def unconfirmed(self) -> UnconfirmedError:
        """The error of a statement that may not spend, with the price of the whole."""
        price = sum(self.price(one).nano for one in (*self.inner, self.dearest()))
        left = self.service.dataset(self.asked.name).remaining_nano
        said = self._filled(self.statement)
        if said.has_lengths:
            return not_spending(said, price_nano=price, remaining_nano=left)
        full = stated(said, self.service.within(self.asked.name))
        return unconfirmed(said, full, price_nano=price, remaining_nano=left)

    def as_said(self, asked: StatementQuestions, remarks: Sequence[str] = ()) -> StatementQuestions:
        """The questions of the rest with the confidences of the text, and further remarks."""
        found = _with_confidences(asked.statement, lambda c: 1 - (1 - c) / (1 - _OF_CHOICE))
        said = [confidence_of(found, k) for k in range(len(self.statement.columns))]
        return replace(
            asked,
            statement=replace(found, inner=(), remarks=(*found.remarks, *remarks)),
            confidence=min(said, default=1.0),
        )

    def _filled(self, statement: Statement) -> Statement:
        found = with_default(statement, self.asked.default)
        return by_owner(found, self.service.within(self.asked.name))

    def _stricter(self, statement: Statement) -> Statement:
        filled = self._filled(statement)
        return _with_confidences(filled, lambda c: 1 - (1 - c) * (1 - _OF_CHOICE))


def _first_half(values: Sequence[str]) -> Sequence[str]:
    return values[: len(values) // 2]


def _every_other(values: Sequence[str]) -> Sequence[str]:
    return values[::2]


def _with_confidences(statement: Statement, of: Callable[[Fraction], Fraction]) -> Statement:
    """The statement with each confidence changed."""

    def changed(one: Exactness) -> Exactness:
        return one if one.confidence is None else replace(one, confidence=of(one.confidence))

    own = of(statement.clauses.confidence or DEFAULT_CONFIDENCE)
    return replace(
        statement,
        clauses=replace(statement.clauses, confidence=own),
        exactness=tuple(map(changed, statement.exactness)),
    )
