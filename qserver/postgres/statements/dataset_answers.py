"""Answers to statements about a dataset: columns by the text alone, and rows.

This is done by a process that may be ended at any time, so it keeps nothing of a connection.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qserver.errors import QServerError
from qserver.postgres.results import Asked, Result, columns_of, encoded, table
from qserver.postgres.session import Session
from qserver.postgres.statements.value_types import array_edits, day_of, days_of, truncated
from qserver.postgres.wire.faults import BUDGET, PostgresError, fault_of
from qserver.postgres.wire.texts import Text
from qserver.postgres.wire.values import BOOL, FLOAT8, TEXT, Column, Literal, quoted
from qserver.program import telemetry
from qserver.query.domain import Domain
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.unconfirmed import UnconfirmedError
from qserver.query.sql.text import Piece, explains
from qserver.records.answer import JobStatus
from qserver.service.ask import Idempotency
from qserver.service.service import Service
from qserver.service.statement_answers import AnyStatement, StatementAnswer, StatementExplanation
from qserver.service.statements import Statements
from qserver.text import at_delta

if TYPE_CHECKING:
    from qserver.storage.standings import Stamp

_WAIT_S: Final = 0.001
"""What must be measured is waited for elsewhere, but refused here where nobody measures."""
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


@dataclass(frozen=True)
class Call:
    """A statement from one connection.

    Args:
        account: who asks and pays; '' where there are no accounts.
        key: under which it is charged once, however often it is sent; '' where it may not spend.
        trace: the traceparent that its jobs belong to; '' for none.
    """

    dataset: str
    text: Text
    session: Session
    account: str
    asked: Asked = field(default_factory=Asked)
    key: str = ""
    trace: str = ""

    @property
    def idempotency(self) -> Idempotency | None:
        """The idempotency key, if any."""
        return Idempotency(self.key, "") if self.key else None


@dataclass(frozen=True)
class Told:
    """The result of a statement.

    Args:
        same_while: it is the same for nothing as long as this is the dataset's state; None: never.
    """

    result: Result
    charged_nano: int = 0
    same_while: Stamp | None = None


@dataclass(frozen=True)
class Answerer:
    """Answers statements through a service."""

    service: Service

    def read(self, dataset: str) -> None:
        """Read what came to a dataset's history; a statement says what is wrong with it."""
        with contextlib.suppress(Exception):
            self.service.read(dataset)

    def columns(self, call: Call) -> tuple[Column, ...]:
        """The columns by the text alone, without asking; PostgresError."""
        if explains(call.text.text):
            return PRICE
        bare, sent = described(call.text), ""
        place: Callable[[int], int] = _nowhere
        try:
            domain = self.service.domain(call.dataset)
            literals = [Literal("NULL", "1")] * call.text.n_parameters
            units = [a.periods.every for a in domain.attributes if a.periods is not None]
            for number in truncated(call.text) if units else ():
                literals[number - 1] = Literal(quoted(units[0]))
            sent, place, _ = self._bound(call, bare, literals, domain)
            return columns_of(self._parsed(call, sent, domain), call.session)
        except Exception as exc:
            # Without its conditions the text has other places.
            raise fault_of(exc, text=sent, place=place if bare is call.text else _nowhere) from exc

    def run(self, call: Call) -> Told | JobStatus:
        """The rows, or the job that they wait for; asked again under their key they continue from
        it.

        Raises:
            PostgresError: there are none.
        """
        try:
            domain, delta = self.service.domain(call.dataset), self.service.delta(call.dataset)
        except Exception as exc:
            raise fault_of(exc) from exc
        sent, place, notices = self._bound(call, call.text, call.asked.literals, domain)
        try:
            if explains(call.text.text):
                return self._price(call, sent)
            with telemetry.under(call.trace):
                found = self._found(call, self._bounded(call, sent, domain))
            if isinstance(found, JobStatus):
                return found
            result = replace(found.result, notices=(*notices, *found.result.notices))
            return replace(found, result=result)
        except Exception as exc:
            raise fault_of(exc, text=sent, place=place, delta=delta) from exc

    def _price(self, call: Call, sent: str) -> Told | JobStatus:
        """The price as a row; without a length, at the proposed one."""
        try:
            return self._found(call, sent)
        except UnconfirmedError as exc:
            price, left = exc.price_nano / 1e9, exc.remaining_nano / 1e9
            row = (price, left, price <= left, True, "default", price, None)
            rows = encoded(PRICE, [row], call.asked)
            return Told(Result("SELECT", PRICE, rows, (exc.hint, *self._unit(call))))

    def _found(self, call: Call, sent: str) -> Told | JobStatus:
        """The table of an answer, or the row of a price."""
        # Nobody waits here, so the whole time is left at the end.
        statements, session = Statements(self.service, clock=lambda: 0.0), call.session
        spends, asking = session.spends, call.idempotency
        state = self.service.state(call.dataset)
        found = statements.run(
            call.dataset,
            sent,
            wait_s=_WAIT_S,
            default=session.default,
            spends=spends,
            idempotency=asking,
            by=call.account,
        )
        if isinstance(found, JobStatus):
            return found
        kept = statements.kept(
            call.dataset, sent, default=session.default, spends=spends, by=call.account
        )
        return self._told(call, found, state if kept is found else None)

    def _told(self, call: Call, found: AnyStatement, state: Stamp | None) -> Told:
        if isinstance(found, StatementAnswer):
            delta = self.service.delta(call.dataset)
            made = table(found, call.session, call.asked, delta)
            return Told(made, found.charged_nano, state)
        rows = encoded(PRICE, [_price_row(found)], call.asked)
        return Told(Result("SELECT", PRICE, rows, self._unit(call)), same_while=state)

    def _unit(self, call: Call) -> tuple[str, ...]:
        """A line on the unit of prices, if that is epsilon at a delta."""
        said = at_delta(self.service.delta(call.dataset))
        return (f"Prices are epsilon{said}.",) if said else ()

    def _bounded(self, call: Call, sent: str, domain: Domain) -> str:
        """The text with the charge still allowed to the connection; PostgresError."""
        left = call.session.left_nano
        if left is None or not call.session.spends:
            return sent
        statement = self._parsed(call, sent, domain)
        said = statement.clauses.at_most
        if not statement.columns or statement.bounds or (said and said * 10**9 <= left):
            return sent
        if said:
            raise PostgresError(
                BUDGET, f"AT MOST must be what `qserver.most` leaves, {left / 1e9:.9g} epsilon."
            )
        return f"{sent}\nAT MOST {max(left, 1) / 1e9:.9f}"

    def _bound(
        self, call: Call, text: Text, literals: Sequence[Literal], domain: Domain
    ) -> tuple[str, Callable[[int], int], tuple[str, ...]]:
        """The text with its values; an untyped one is a text, or else a number.

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
                self._parsed(call, found[0], domain)
            except QServerError:
                other = bind(as_numbers=True, edits=[*days.edits, *arrays[1]])
                with contextlib.suppress(QServerError):
                    self._parsed(call, other[0], domain)
                    found = other
        return *found, days.notices

    def _parsed(self, call: Call, text: str, domain: Domain) -> Statement:
        """The statement in a text, of numbers or of public names; SqlError."""
        return self.service.read_statements.of(call.dataset, domain, text)


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
    """A text with the same columns, whose conditions wait for no parameter.

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
    return Text(words, text.start)


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
    """The pieces at their places; a blank stands for any that are left out."""
    found, last = "", 0
    for piece in kept:
        gap = text.text[last : piece.start]
        found += (gap if not gap.strip() else " ") + piece.text
        last = piece.stop
    return found
