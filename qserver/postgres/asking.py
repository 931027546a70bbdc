"""Statements about a dataset: their columns by the text alone, and their rows from the service."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from qserver.errors import QServerError
from qserver.postgres.ends import with_ends
from qserver.postgres.places import array_edits, truncated, types_of
from qserver.postgres.results import Asked, Plan, Result, columns_of, encoded, table
from qserver.postgres.session import Session
from qserver.postgres.spans import spanned
from qserver.postgres.times import day_of, days_of
from qserver.postgres.turns import Turns, Use
from qserver.postgres.wire.faults import BUDGET, TOO_LATE, PostgresError, fault_of
from qserver.postgres.wire.messages import GoneError
from qserver.postgres.wire.texts import Piece, Text, pieces
from qserver.postgres.wire.values import BOOL, BY_NAME, FLOAT8, TEXT, Column, Literal, Type, quoted
from qserver.query.domain import Domain
from qserver.query.sql.plain import explains
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.relations import columns_of_domain
from qserver.query.sql.tables.unconfirmed import UnconfirmedError
from qserver.records.answer import JobStatus
from qserver.service.ask import Idempotency
from qserver.service.cells.kept import MOST_KEPT
from qserver.service.last_used import LastUsed
from qserver.service.service import Service
from qserver.service.statement_answers import AnyStatement, StatementAnswer, StatementExplanation
from qserver.service.statements import Statements

_MOST_WAIT_S = 300.0
_LEAST_WAIT_S = 1.0
_VALUE_S = 25e-6
"""Showing a number: 840 took 20 ms on one machine."""
_MOST_SHOWN = 1 << 18
"""Bytes of rows that are kept beside their answer."""
PRICE = (
    Column("price", FLOAT8),
    Column("remaining", FLOAT8),
    Column("affordable", BOOL),
    Column("at_most", BOOL),
    Column("kind", TEXT),
    Column("most", FLOAT8),
    Column("allowance", FLOAT8),
)
_CLAUSES = frozenset(
    (
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
        "OFFSET",
        "WITHIN",
        "CONFIDENCE",
        "ASSUMING",
        "CONSISTENT",
        "SIMULTANEOUS",
        "AS",
        "UNION",
        "INDEPENDENT",
        "GIVEN",
        "BY",
    )
)


class Shown(LastUsed[tuple[int, tuple[int, ...], bool, bool], tuple[StatementAnswer, Result]]):
    """Answers with their rows, by identity, formats, and whether with intervals and rounded."""

    def __init__(self) -> None:
        super().__init__(MOST_KEPT)


@dataclass(frozen=True)
class Asker:
    """Asks statements for one connection.

    Args:
        account: who asks and pays; '' where there are no accounts.
        wait_s: how long the service waits at once, in seconds.
        use: what the connection took so far.
        turns: of all connections.
        shown: the rows of answers, for all connections.
    """

    service: Service
    session: Session
    account: str
    wait_s: float
    use: Use = field(default_factory=Use)
    turns: Turns = field(default_factory=Turns)
    shown: Shown = field(default_factory=Shown)
    clock: Callable[[], float] = time.monotonic

    def plan(self, dataset: str, text: Text) -> Plan:
        """What a statement about a dataset would give."""
        if self.session.names_ends:
            domain = self.service.domain(dataset)
            found = with_ends(text, domain, lambda of: self._plan(dataset, of))
            if found is not None:
                return found
        return self._plan(dataset, text)

    def _plan(self, dataset: str, text: Text) -> Plan:
        return Plan(
            lambda: self._columns(dataset, text),
            lambda asked: self._run(dataset, text, asked),
            types=lambda: types_of(text, self._types(dataset)),
        )

    def _types(self, dataset: str) -> dict[str, Type]:
        """The types of what a statement about a dataset can compare."""
        columns = columns_of_domain(self.service.domain(dataset))
        return {name.lower(): BY_NAME[kind] for name, kind in columns}

    def _columns(self, dataset: str, text: Text) -> tuple[Column, ...]:
        """The columns by the text alone; nothing is asked."""
        if explains(text.text):
            return PRICE
        bare, sent = described(text), ""
        place: Callable[[int], int] = _nowhere
        try:
            domain = self.service.domain(dataset)
            literals = [Literal("NULL", "1")] * text.n_parameters
            units = [a.periods.every for a in domain.attributes if a.periods is not None]
            for number in truncated(text) if units else ():
                literals[number - 1] = Literal(quoted(units[0]))
            sent, place, _ = self._bound(dataset, bare, literals, domain)
            return columns_of(self._parsed(sent, domain, dataset), self.session)
        except Exception as exc:
            # Without its conditions it has places of its own.
            raise fault_of(exc, text=sent, place=place if bare is text else _nowhere) from exc

    def _run(self, dataset: str, text: Text, asked: Asked) -> Result:
        try:
            domain = self.service.domain(dataset)
        except Exception as exc:
            raise fault_of(exc) from exc
        with spanned(dataset, slot_ms=self.service.slot_ms):
            return self._answered(dataset, text, asked, domain)

    def _answered(self, dataset: str, text: Text, asked: Asked, domain: Domain) -> Result:
        sent, place, notices = self._bound(dataset, text, asked.literals, domain)
        try:
            if explains(text.text):
                return self._price(dataset, sent, asked)
            found = self._found(dataset, self._bounded(sent, domain, dataset))
            told = self._told(found, asked)
            return replace(told, notices=(*notices, *told.notices))
        except Exception as exc:
            raise fault_of(exc, text=sent, place=place) from exc

    def _price(self, dataset: str, sent: str, asked: Asked) -> Result:
        """The price as a row; of a text that says no length, at the length that is proposed."""
        try:
            found = self._found(dataset, sent)
        except UnconfirmedError as exc:
            price, left = exc.price_nano / 1e9, exc.remaining_nano / 1e9
            row = (price, left, price <= left, True, "default", price, None)
            return Result("SELECT", PRICE, encoded(PRICE, [row], asked), (exc.hint,))
        return self._told(found, asked)

    def _told(self, found: AnyStatement, asked: Asked) -> Result:
        """The table of an answer, or the row of a price."""
        if isinstance(found, StatementAnswer):
            key = id(found), tuple(asked.formats), self.session.has_intervals, self.session.rounds
            if (known := self.shown.find(key)) is not None:
                return known[1]
            with self.turns.likely(self.use, _VALUE_S * sum(map(len, found.cells))):
                made = table(found, self.session, asked)
            if sum(map(len, made.rows)) <= _MOST_SHOWN:
                self.shown.keep(key, (found, made))
            return made
        return Result("SELECT", PRICE, encoded(PRICE, [_price_row(found)], asked))

    def _bounded(self, sent: str, domain: Domain, dataset: str) -> str:
        """The text with what the connection may still be charged; PostgresError."""
        left = self.session.left_nano
        if left is None or not self.session.spends:
            return sent
        statement = self._parsed(sent, domain, dataset)
        said = statement.clauses.at_most
        if not statement.columns or statement.bounds or (said and said * 10**9 <= left):
            return sent
        if said:
            raise PostgresError(
                BUDGET, f"AT MOST must be what `qserver.most` leaves, {left / 1e9:.9g} epsilon."
            )
        return f"{sent}\nAT MOST {max(left, 1) / 1e9:.9f}"

    def _bound(
        self, dataset: str, text: Text, literals: Sequence[Literal], domain: Domain
    ) -> tuple[str, Callable[[int], int], tuple[str, ...]]:
        """The text with its values: what has no type is a text, or else a number.

        Also where its characters were sent, and what to know of its days.
        """
        days = days_of(text, domain)
        if any(a.kind in ("date", "period") for a in domain.attributes):
            literals = [replace(literal, text=day_of(literal.text)) for literal in literals]
        bind = partial(text.bound, literals, strips=True)
        arrays = [array_edits(text, as_numbers=is_number) for is_number in (False, True)]
        found = bind(edits=[*days.edits, *arrays[0]])
        if any(literal.number for literal in literals) or arrays[0]:
            try:
                self._parsed(found[0], domain, dataset)
            except QServerError:
                other = bind(as_numbers=True, edits=[*days.edits, *arrays[1]])
                with contextlib.suppress(QServerError):
                    self._parsed(other[0], domain, dataset)
                    found = other
        return *found, days.notices

    def _parsed(self, text: str, domain: Domain, dataset: str) -> Statement:
        """The statement in a text, of numbers or of public names; SqlError."""
        turn = partial(self.turns.of, self.use, len(text))
        return self.service.read_statements.of(dataset, domain, text, turn)

    def _found(self, dataset: str, sent: str) -> AnyStatement:
        """The answer, waited for; what it was charged counts for the connection."""
        # Under a key the last answer says what the steps before it were charged.
        asking = Idempotency(f"postgres {uuid.uuid4().hex}", "") if self.session.spends else None
        statements, found = Statements(self.service), None
        try:
            found = self._awaited(statements, dataset, sent, asking)
        finally:
            if asking is not None and isinstance(found, StatementAnswer):
                self.session.spent_nano += found.charged_nano
            elif asking is not None and found is None:
                self.session.spent_nano += statements.charged_nano(dataset, asking)
        return found

    def _awaited(
        self, statements: Statements, dataset: str, sent: str, asking: Idempotency | None
    ) -> AnyStatement:
        """The answer; a job's statement is asked again when the job is done."""
        deadline, default, by = self.clock() + _MOST_WAIT_S, self.session.default, self.account
        spends = asking is not None
        known = statements.kept(dataset, sent, default=default, spends=spends, by=by)
        if known is not None:
            return known
        while self.clock() < deadline:
            with self.turns.of(self.use, len(sent)):
                found = statements.run(
                    dataset,
                    sent,
                    wait_s=max(self.wait_s, _LEAST_WAIT_S),
                    default=default,
                    spends=spends,
                    idempotency=asking,
                    by=by,
                )
            if not isinstance(found, JobStatus):
                return found
            if self.use.is_gone():
                raise GoneError
        # What is being measured may be charged later: it counts as if it had been.
        self.session.spent_nano += self.session.left_nano or 0
        raise PostgresError(
            TOO_LATE, "The answer is still being measured.", hint="Send the statement again later."
        )


def _nowhere(_: int) -> int:
    return 0


def _price_row(found: StatementExplanation) -> tuple[Any, ...]:
    price, left, most = (n / 1e9 for n in (found.price_nano, found.remaining_nano, found.most_nano))
    own, affordable = found.own, found.affordable
    allowance = None
    if own is not None:
        affordable &= own.affordable
        allowance = None if own.limit_nano is None else (own.limit_nano - own.spent_nano) / 1e9
    return (price, left, affordable, found.is_most, found.kind, most, allowance)


def described(text: Text) -> Text:
    """A text with the same columns, in which no condition waits for a parameter.

    Each WHERE or HAVING with a parameter is left out, and so is a FILTER.
    """
    if not text.n_parameters:
        return text
    kept, skipped, depth, closes = list[Piece](), -1, 0, False
    for i, piece in enumerate(text.pieces):
        depth += {"(": 1, ")": -1}.get(piece.text, 0) if piece.kind == "sign" else 0
        if skipped >= 0 and (depth < skipped or (depth == skipped and piece.upper in _CLAUSES)):
            skipped = -1
            if closes:
                closes = False
                continue
        if skipped < 0 and piece.upper in ("WHERE", "HAVING") and _waits(text.pieces[i + 1 :]):
            skipped = depth
            closes = [before.upper for before in kept[-2:]] == ["FILTER", "("]
            del kept[len(kept) - 2 * closes :]
        if skipped < 0:
            kept.append(piece)
    words = _spaced(text, kept)
    return Text(words, text.start, tuple(pieces(words)))


def _waits(after: Sequence[Piece]) -> bool:
    """Whether the condition that begins here has a parameter."""
    depth = 0
    for piece in after:
        if piece.kind == "sign":
            depth += {"(": 1, ")": -1}.get(piece.text, 0)
        if depth < 0 or (depth == 0 and piece.upper in _CLAUSES):
            return False
        if piece.kind == "parameter":
            return True
    return False


def _spaced(text: Text, kept: Sequence[Piece]) -> str:
    """The pieces as they stood, one blank where others stood between them."""
    found, last = "", 0
    for piece in kept:
        gap = text.text[last : piece.start]
        found += (gap if not gap.strip() else " ") + piece.text
        last = piece.stop
    return found
