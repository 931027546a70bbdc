"""Statements with a SELECT of groups behind IN: its numbers are asked first, and then the rest.

The rest is asked about the groups that the released numbers give. Where others are possible by the
intervals of all these numbers at once, it is asked about them, too, and each interval is the hull
of those about all possible choices. The true choice is one of them, and fixed by the records alone;
so is what is asked of it. So the interval misses where those of the inner numbers do, or the one
about the true choice does: what it may miss with is divided between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from qserver.errors import BudgetExhaustedError, InputError
from qserver.query.domain import Domain
from qserver.query.sql.cells import CellValue, StatementQuestions, is_public
from qserver.query.sql.clauses import DEFAULT_CONFIDENCE
from qserver.query.sql.combined.function import KnownPart
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.shaping.shape import PLAIN
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.choosing import Values
from qserver.query.sql.tables.exactness import Exactness
from qserver.query.sql.tables.intervals import CellInterval
from qserver.query.sql.tables.relative import confidence_of
from qserver.query.sql.tables.unconfirmed import (
    UnconfirmedError,
    by_owner,
    stated,
    unconfirmed,
    with_default,
)
from qserver.records.answer import JobStatus
from qserver.service.ask import Idempotency
from qserver.service.cells.kept import StatementKey
from qserver.service.statement_answers import (
    AnsweredCell,
    AnyStatement,
    CellReading,
    StatementAnswer,
    StatementExplanation,
)
from qserver.service.unmeasured.first import known_now, not_spending

if TYPE_CHECKING:
    from qserver.service.service import Service
    from qserver.service.statements import Statements

_OF_CHOICE = Fraction(3, 20)
"""Part of what an interval may miss with that the choice of groups has."""
MOST_ASKED = 4
"""About so many choices the rest is asked at most; beyond these history must know it."""
_MOST_SETS = 64
_MOST_NAMES = 12
Choice = tuple[Values, ...]
"""What each of the SELECTs gives."""


@dataclass(frozen=True)
class _Told:
    """What the inner SELECTs give by their released numbers, and all that they may; or too many."""

    chosen: Choice
    possible: tuple[Choice, ...] | None
    charged_nano: int

    @property
    def others(self) -> list[Choice]:
        """The other choices, the nearest first."""
        found = [one for one in self.possible or () if one != self.chosen]
        return sorted(found, key=lambda one: sum(map(_distance, one, self.chosen)))


@dataclass(frozen=True)
class InnerSelects:
    """One such statement, as it was sent.

    Args:
        statement: with the most groups that the SELECTs may give.
    """

    statements: Statements
    service: Service
    asked: StatementKey
    statement: Statement
    domain: Domain

    def run(self, *, deadline: float, idempotency: Idempotency | None) -> AnyStatement | JobStatus:
        """The table, its price, or the job of a part, as `Statements.run` gives it."""
        widest, inner = self._outer(None), self._inner()
        if widest.has_lengths and not all(one.has_lengths for one in inner):
            raise self.statement.source.refuse(
                "say how exactly the counts of the inner SELECT are told",
                self.statement.source.end,
                hint="Nearest: WITHIN 100 at the end.",
            )
        if self.asked.explain or widest.explains:
            if not widest.has_lengths:
                raise self._unconfirmed()
            return self._explained(widest, inner, deadline)
        # Where a length is lacking, history answers all of it or nothing is spent.
        may_spend = self.asked.spends and widest.has_lengths
        sent = replace(self, asked=replace(self.asked, spends=may_spend))
        try:
            return sent._answered(deadline, idempotency)
        except UnconfirmedError as exc:
            raise self._unconfirmed() from exc

    # The statements that it is made of.

    def _filled(self, statement: Statement) -> Statement:
        found = with_default(statement, self.asked.default)
        return by_owner(found, self.service.within(self.asked.name))

    def _outer(self, chosen: Choice | None) -> Statement:
        """The rest, with what the SELECTs give; with the most where that is left out."""
        found = self.statement
        if chosen is not None:
            asked, name = self.asked, self.asked.name
            found = parse_statement(asked.text, self.domain, dataset=name, chosen=chosen)
            # Which numbers its WITHIN is for depends on the inner ones.
            found = replace(found.measuring(asked.measure), inner=self.statement.inner)
        return _with_confidences(self._filled(found), lambda c: 1 - (1 - c) * (1 - _OF_CHOICE))

    def _inner(self) -> list[Statement]:
        """The tables of the numbers by which the SELECTs choose."""
        filled = self._filled(self.statement)
        columns = range(len(filled.columns))
        most = max((Fraction(str(confidence_of(filled, k))) for k in columns), default=None)
        confidence = 1 - (1 - (most or DEFAULT_CONFIDENCE)) * _OF_CHOICE / len(self.statement.inner)
        return [
            self._filled(replace(table, clauses=replace(table.clauses, confidence=confidence)))
            for table in (one.statement for one in self.statement.inner)
        ]

    # Answers.

    def _answered(
        self, deadline: float, idempotency: Idempotency | None
    ) -> StatementAnswer | JobStatus:
        if isinstance(told := self._told(deadline), JobStatus):
            return told
        outer = self._outer(told.chosen)
        if told.possible is None:
            return self._joined(told, self._unknown(outer), [None])
        first = self._table(outer, deadline, idempotency)
        if isinstance(first, JobStatus):
            return first
        n_asked, charged, others = 1, first.charged_nano, list[StatementAnswer | None]()
        for one in told.others:
            try:
                outer = replace(self._outer(one), shape=PLAIN)
                found = self._known(outer, deadline)
                if found is None and n_asked < MOST_ASKED and self._may(outer):
                    n_asked += 1
                    found = self._table(outer, deadline)
            except InputError:
                found = None  # it cannot be asked
            if isinstance(found, JobStatus):
                return found
            charged += 0 if found is None else found.charged_nano
            others.append(found)
        last = ([first] + [one for one in others if one is not None])[-1]
        paid = replace(first, charged_nano=charged, remaining_nano=last.remaining_nano)
        return self._joined(told, replace(paid, version=last.version), others)

    def _told(self, deadline: float) -> _Told | JobStatus:
        """What the inner SELECTs give."""
        inner = self._inner()
        self._check_budget(inner)
        tables = list[StatementAnswer]()
        for one in inner:
            found = self._table(one, deadline)
            if isinstance(found, JobStatus):
                return found
            tables.append(found)
        pairs = list(zip(self.statement.inner, tables, strict=True))
        chosen = tuple(one.chosen(_at_once(table)) for one, table in pairs)
        each = [one.possible(_at_once(table)) for one, table in pairs]
        sets, possible = [one for one in each if one is not None], None
        if len(sets) == len(each) and prod(map(len, sets)) <= _MOST_SETS:
            possible = tuple(product(*sets))
        return _Told(chosen, possible, sum(table.charged_nano for table in tables))

    def _check_budget(self, inner: Sequence[Statement]) -> None:
        """BudgetExhaustedError where what is left does not pay the rest as well."""
        if not self.asked.spends or not all(one.has_lengths for one in inner):
            return
        price = sum(map(self._price, inner))
        left = self.service.dataset(self.asked.name).remaining_nano
        if price and (price := price + self._price(self._outer(None))) > left:
            raise BudgetExhaustedError(price_nano=price, remaining_nano=left)

    def _price(self, statement: Statement) -> int:
        return self.statements.price(self.asked.name, statement, by=self.asked.by).nano

    def _may(self, statement: Statement) -> bool:
        """Whether a statement may be paid."""
        asked = self.asked
        if not asked.spends:
            return False
        return self.statements.price(asked.name, statement, by=asked.by).is_payable

    def _table(
        self, statement: Statement, deadline: float, idempotency: Idempotency | None = None
    ) -> StatementAnswer | JobStatus:
        wait_s = self.statements.left_s(deadline)
        found = self.statements.answered(
            self.asked, statement, wait_s=wait_s, idempotency=idempotency
        )
        assert not isinstance(found, StatementExplanation)  # noqa: S101 - it does not explain
        return found

    def _known(self, statement: Statement, deadline: float) -> StatementAnswer | JobStatus | None:
        """The table by what history knows, however exactly."""
        if not statement.rows:
            return self._unknown(statement)
        asked, full = self.asked, stated(statement, self.service.within(self.asked.name))
        return known_now(
            self.statements,
            self.service,
            asked.name,
            self.statements.asked(asked.name, full),
            wait_s=self.statements.left_s(deadline),
            by=asked.by,
        )

    def _unknown(self, statement: Statement) -> StatementAnswer:
        """The table of which nothing is known."""
        name, status = self.asked.name, self.service.dataset(self.asked.name)
        questions = self.statements.asked(name, stated(statement, self.service.within(name)))
        return self.statements.known_table(
            name,
            questions,
            [None] * len(questions.questions),
            remaining_nano=status.remaining_nano,
            version=status.version,
            is_asked=False,
        )

    def _joined(
        self, told: _Told, first: StatementAnswer, others: Sequence[StatementAnswer | None]
    ) -> StatementAnswer:
        """The table by the released choice, with intervals that allow for all others."""
        rows = [
            {} if one is None else dict(zip(_groups(one), one.cells, strict=True))
            for one in others
            if one is None or one.cells
        ]
        is_known = None not in others
        cells = list[tuple[AnsweredCell, ...]]()
        for i, (group, own) in enumerate(zip(_groups(first), first.cells, strict=True)):
            found = [row[group] for row in rows if group in row]
            joined = [
                _hull([c, *rest], is_known=is_known) for c, *rest in zip(own, *found, strict=True)
            ]
            of = first.asked.cells[i] if first.asked.cells else ()
            for k, (parts, cell) in enumerate(zip(of, joined, strict=False)):
                if is_public(parts, cell.value.interval):
                    joined[k] = replace(cell, value=CellValue(None, cell.value.interval))
            cells.append(tuple(joined))
        asked = self._as_said(first.asked, _remarks(told))
        charged = first.charged_nano + told.charged_nano
        return replace(first, asked=asked, cells=tuple(cells), charged_nano=charged)

    def _as_said(self, asked: StatementQuestions, remarks: Sequence[str]) -> StatementQuestions:
        """The questions with the confidences of the text."""
        found = _with_confidences(asked.statement, lambda c: 1 - (1 - c) / (1 - _OF_CHOICE))
        said = [confidence_of(found, k) for k in range(len(self.statement.columns))]
        return replace(
            asked,
            statement=replace(found, inner=(), remarks=(*found.remarks, *remarks)),
            confidence=min(said, default=1.0),
        )

    # Prices.

    def _explained(
        self, widest: Statement, inner: Sequence[Statement], deadline: float
    ) -> StatementExplanation:
        """The price of the inner numbers and of the rest, and the most if groups are in doubt."""
        name, by = self.asked.name, self.asked.by
        parts = [self.statements.explain(name, one, by=by) for one in inner]
        outer, n_choices = widest, MOST_ASKED
        if all(one.kind in ("free", "exact") for one in parts):
            told = replace(self, asked=replace(self.asked, explain=False))._told(deadline)
            if isinstance(told, _Told) and told.possible is not None:
                n_choices, outer = min(n_choices, 1 + len(told.others)), self._outer(told.chosen)
        found = self.statements.explain(name, outer if outer.rows else widest, by=by)
        before = sum(one.price_nano for one in parts)
        price = before + found.price_nano
        return replace(
            found,
            asked=self._as_said(found.asked, ()),
            kind=found.kind if not before else parts[0].kind,
            price_nano=price,
            most_nano=sum(one.most_nano for one in parts) + n_choices * found.most_nano,
            price_apart_nano=None,
            measure=replace(
                found.measure,
                only_this_nano=sum(one.measure.only_this_nano for one in (*parts, found)),
                auto_nano=sum(one.measure.auto_nano for one in (*parts, found)),
            ),
            affordable=price <= found.remaining_nano,
            curve=(),
        )

    def _unconfirmed(self) -> UnconfirmedError:
        """The error of a statement that may not spend, with the price of all of it."""
        within = self.service.within(self.asked.name)
        full = stated(self._filled(self.statement), within)
        price = sum(self._price(stated(one, within)) for one in (*self._inner(), full))
        left = self.service.dataset(self.asked.name).remaining_nano
        said = self._filled(self.statement)
        if said.has_lengths:
            return not_spending(said, price_nano=price, remaining_nano=left)
        return unconfirmed(said, full, price_nano=price, remaining_nano=left)


def _with_confidences(statement: Statement, of: Callable[[Fraction], Fraction]) -> Statement:
    """The statement with each confidence changed."""

    def changed(one: Exactness) -> Exactness:
        return one if one.confidence is None else replace(one, confidence=of(one.confidence))

    clauses = statement.clauses
    own = of(clauses.confidence or DEFAULT_CONFIDENCE)
    return replace(
        statement,
        clauses=replace(clauses, confidence=own),
        exactness=tuple(map(changed, statement.exactness)),
    )


def _at_once(table: StatementAnswer) -> list[list[KnownPart]]:
    """The numbers, with intervals that all hold at once."""

    def part(cell: AnsweredCell) -> KnownPart:
        looked, own = cell.after_looking, cell.value
        ends = own.interval if looked is None else looked.at_once
        return KnownPart.of(own.estimate or 0.0, ends.low, ends.high)

    return [[part(cell) for cell in row] for row in table.cells]


def _groups(table: StatementAnswer) -> list[tuple[object, ...]]:
    return [(row.group, row.together) for row in table.asked.statement.rows]


def _distance(one: Values, other: Values) -> int:
    return len(one ^ other)


def _hull(cells: Sequence[AnsweredCell], *, is_known: bool) -> AnsweredCell:
    """A cell whose intervals hold all those of some cells; all numbers where one is not known."""
    first = cells[0]
    if not is_known:
        return replace(first, value=CellValue(None, CellInterval(None, None)), after_looking=None)
    looked = [cell.after_looking for cell in cells]
    known = [one for one in looked if one is not None]
    reading = None
    if len(known) == len(cells):
        names = ("at_once", "largest", "least")
        reading = CellReading(*(_around([getattr(one, n) for one in known]) for n in names))
    interval = _around([cell.value.interval for cell in cells])
    return replace(first, value=CellValue(first.value.estimate, interval), after_looking=reading)


def _around(intervals: Sequence[CellInterval]) -> CellInterval:
    lows, highs = [one.low for one in intervals], [one.high for one in intervals]
    known_lows, known_highs = ([e for e in ends if e is not None] for ends in (lows, highs))
    return CellInterval(
        min(known_lows) if len(known_lows) == len(lows) else None,
        max(known_highs) if len(known_highs) == len(highs) else None,
    )


def _remarks(told: _Told) -> list[str]:
    """What to know of the choice, a sentence each."""
    found = [
        f"By its released numbers the inner SELECT gives {_shown(one)}." for one in told.chosen
    ]
    if told.possible is None:
        found.append(
            "Too many of its groups are in doubt for the rest to be told: a shorter WITHIN tells "
            "more of them apart."
        )
    elif told.others:
        doubt = frozenset[str | None]()
        for sets in zip(*told.possible, strict=True):
            doubt |= frozenset.union(*sets) - frozenset.intersection(*sets)
        found.append(f"Whether it gives {_shown(doubt)} is not sure: intervals allow for both.")
    return found


def _shown(values: Values) -> str:
    names = sorted("NULL" if one is None else f"'{one[:40]}'" for one in values)
    more = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES]) or "nothing"
    return f"{shown} and {more} more" if more > 0 else shown
