"""What a connection keeps between messages: prepared statements, and portals (cursors).

Rows that are not sent yet have a bound for all portals together, and those of a portal that is at
its end are forgotten. The extended protocol fills them: Parse, Bind, Describe, Execute and Close.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from qserver.postgres.catalogue.child import MOST_BYTES, ROW_BYTES
from qserver.postgres.commands import acting
from qserver.postgres.results import Asked, Plan, Result, nothing
from qserver.postgres.session import Session
from qserver.postgres.wire import messages
from qserver.postgres.wire.faults import (
    NO_PORTAL,
    NO_STATEMENT,
    NOT_SUPPORTED,
    PROTOCOL_VIOLATION,
    SYNTAX,
    TOO_LARGE,
    PostgresError,
    violation,
)
from qserver.postgres.wire.messages import Fields, Stream
from qserver.postgres.wire.texts import Text, statements, type_named
from qserver.postgres.wire.values import TEXT, Column, Literal, Parameter, formats_of
from qserver.query.sql.text import MAX_CHARACTERS, Piece

_MOST: Final = 1000
_COLUMN_BYTES: Final = 130
"""What a column takes beside the letters of its name."""


@dataclass(frozen=True)
class Prepared:
    """A statement with places for values; an empty text has no plan.

    Args:
        of_bytes: what holding its plan takes.
        text: what it says.
    """

    plan: Plan | None
    oids: tuple[int, ...]
    of_bytes: int = 0
    text: Text | None = None

    @property
    def n_bytes(self) -> int:
        """The bytes that it holds beyond its plan."""
        return 0


@dataclass
class Portal:
    """A statement with its values, and the rest of its rows once it ran.

    Args:
        outlives: whether it lasts after its transaction.
        described: the columns that its client was told.
        of_bytes: what holding its plan takes, also where its statement is forgotten.
    """

    plan: Plan | None
    asked: Asked
    outlives: bool = False
    described: tuple[Column, ...] | None = None
    result: Result | None = None
    left: list[bytes] = field(default_factory=list)
    of_bytes: int = 0
    rows_bytes: int = 0
    columns_bytes: int = 0

    @property
    def n_bytes(self) -> int:
        """The bytes of its values, rows and columns."""
        values = sum(len(one.text) + len(one.number) for one in self.asked.literals)
        return self.rows_bytes + values + self.columns_bytes

    def take(self, most: int) -> Sequence[bytes]:
        """The next rows, at most so many; all for 0."""
        taken = self.left[:most] if most > 0 else self.left
        self.left = self.left[len(taken) :]
        self.rows_bytes -= _bytes_of(taken)
        return taken


def _columns_bytes(columns: Sequence[Column] | None) -> int:
    return sum(_COLUMN_BYTES + len(column.name) for column in columns or ())


def _bytes_of(rows: Sequence[bytes]) -> int:
    return sum(map(len, rows)) + ROW_BYTES * len(rows)


class Held:
    """The prepared statements and portals of one connection; `plan_of` plans a text."""

    def __init__(self, session: Session, plan_of: Callable[[Text], Plan]) -> None:
        self._session, self._plan_of = session, plan_of
        self.statements: dict[str, Prepared] = {}
        self.portals: dict[str, Portal] = {}

    def end_portals(self) -> None:
        """Forget the portals that end with a transaction."""
        self.portals = {name: p for name, p in self.portals.items() if p.outlives}

    def prepared(self, text: str, oids: Sequence[int]) -> Prepared:
        """A statement by its text and the types that a client knows; nothing is asked."""
        if len(text) > MAX_CHARACTERS:
            raise PostgresError(TOO_LARGE, f"A text has at most {MAX_CHARACTERS:,} characters.")
        found = statements(text)
        if len(found) > 1:
            raise PostgresError(SYNTAX, "Only one statement can be prepared at once.")
        return self._of(found[0], oids) if found else Prepared(None, ())

    def _of(self, text: Text, oids: Sequence[int]) -> Prepared:
        n = text.n_parameters
        if n > _MOST:
            raise PostgresError(TOO_LARGE, f"A statement has at most {_MOST:,} parameters.")
        plan = self._plan_of(text)
        # What a client leaves to us has the type of its place, or is a text that is read as what
        # it is compared with.
        types = [kind.oid for kind in plan.types()] if n > 0 else []
        types += [TEXT.oid] * (n - len(types))
        found = tuple(oids[i] if i < len(oids) and oids[i] else types[i] for i in range(n))
        return Prepared(plan, found, text.n_bytes, text)

    def keep(self, name: str, prepared: Prepared) -> None:
        """Keep a statement under a name; PostgresError."""
        if name and name not in self.statements and len(self.statements) >= _MOST:
            raise PostgresError(TOO_LARGE, f"At most {_MOST:,} statements can be prepared.")
        self._check(self.statements.get(name), prepared)
        self.statements[name] = prepared

    def open(self, name: str, portal: Portal) -> None:
        """Keep a portal under a name; PostgresError."""
        if name and name not in self.portals and len(self.portals) >= _MOST:
            raise PostgresError(TOO_LARGE, f"At most {_MOST:,} portals can be open.")
        self._check(self.portals.get(name), portal)
        self.portals[name] = portal

    def _check(self, before: Prepared | Portal | None, one: Prepared | Portal) -> None:
        """Raise PostgresError if one, in place of another, is too large beside all others."""
        held: list[Prepared | Portal] = [*self.statements.values(), *self.portals.values()]
        held = [*(other for other in held if other is not before), one]
        plans = {id(other.plan): other.of_bytes for other in held}
        if sum(plans.values()) + sum(other.n_bytes for other in held) > MOST_BYTES:
            raise PostgresError(
                TOO_LARGE, "The statements and open portals of a connection hold too much."
            )

    def statement(self, name: str) -> Prepared:
        """The statement of a name; PostgresError."""
        if (found := self.statements.get(name)) is None:
            raise PostgresError(NO_STATEMENT, f"No statement is called `{name[:60]}`.")
        return found

    def portal(self, name: str) -> Portal:
        """The portal of a name; PostgresError."""
        if (found := self.portals.get(name)) is None:
            raise PostgresError(NO_PORTAL, f"No portal is called `{name[:60]}`.")
        return found

    def described(self, portal: Portal, columns: tuple[Column, ...] | None) -> None:
        """Let a portal have its columns; PostgresError where all portals would hold too much."""
        portal.described, portal.columns_bytes = columns, _columns_bytes(columns)
        self._held(portal)

    def ran(self, portal: Portal, result: Result) -> None:
        """Let a portal have its rows; PostgresError where all portals would hold too much."""
        told = portal.described if portal.described == result.columns else result.columns
        portal.result, portal.left = replace(result, rows=(), columns=told), list(result.rows)
        portal.rows_bytes = _bytes_of(portal.left)
        if told is not portal.described:
            portal.columns_bytes += _columns_bytes(told)
        self._held(portal)

    def _held(self, portal: Portal) -> None:
        """Forget a portal, with PostgresError, if all portals would hold too much."""
        try:
            self._check(portal, portal)
        except PostgresError:
            self.portals = {name: p for name, p in self.portals.items() if p is not portal}
            raise

    def command(self, text: Text) -> Plan | None:
        """The plan of a command about these; None for another text. PostgresError."""
        made = {
            "PREPARE": self._prepare,
            "EXECUTE": self._execute,
            "EXPLAIN": self._explain,
            "DEALLOCATE": self._deallocate,
            "DECLARE": self._declare,
            "FETCH": self._fetch,
            "MOVE": self._fetch,
            "CLOSE": self._close,
            "DISCARD": self._discard,
        }.get(text.words[0])
        return None if made is None else made(text)

    def _prepare(self, text: Text) -> Plan:
        parts = text.pieces
        i = next((i for i, piece in enumerate(parts) if piece.upper == "AS"), 0)
        if i < 2 or i + 1 == len(parts):
            raise PostgresError(SYNTAX, "PREPARE needs a name, AS and a statement.")
        oids = [_oid(kind) for kind in _split(parts[3 : i - 1])] if i > 2 else []
        inner = text.part(parts[i].stop, len(text.text))

        def run() -> Result:
            if parts[1].name in self.statements:
                raise PostgresError("42P05", f"`{parts[1].name[:60]}` is prepared already.")
            self.keep(parts[1].name, self._of(inner, oids))
            return Result("PREPARE")

        return acting(run)

    def _explain(self, text: Text) -> Plan | None:
        """The price of EXECUTE; None for another EXPLAIN."""
        return self._execute(text, text.pieces[1:]) if text.words[1:2] == ("EXECUTE",) else None

    def _execute(self, text: Text, parts: Sequence[Piece] = ()) -> Plan:
        is_priced, parts = bool(parts), parts or text.pieces
        if len(parts) < 2:
            raise PostgresError(SYNTAX, "EXECUTE needs the name of a statement.")
        given = [_literal(text, part) for part in _split(parts[3:-1])] if len(parts) > 2 else []

        def of() -> Prepared:
            found = self.statement(parts[1].name)
            if len(given) != len(found.oids):
                raise PostgresError(
                    SYNTAX, f"The statement has {len(found.oids)} parameters, got {len(given)}."
                )
            return found

        def plan_of(found: Prepared) -> Plan | None:
            if found.text is None or not is_priced:
                return found.plan
            return self._plan_of(Text(f"EXPLAIN {found.text.text}"))

        def columns() -> tuple[Column, ...] | None:
            plan = plan_of(of())
            return None if plan is None else plan.columns()

        def run(asked: Asked) -> Result:
            found = of()
            plan = plan_of(found)
            literals = [
                Parameter(oid, False, piece.name.encode()).literal
                if piece is not None and piece.kind == "text"
                else literal
                for oid, (literal, piece) in zip(found.oids, given, strict=True)
            ]
            return plan.run(replace(asked, literals=literals)) if plan else Result("")

        return Plan(columns, run)

    def _deallocate(self, text: Text) -> Plan:
        last = text.pieces[-1]

        def run() -> Result:
            if last.upper == "ALL":
                self.statements.clear()
            else:
                self.statements.pop(last.name, None)
            return Result("DEALLOCATE")

        return acting(run)

    def _declare(self, text: Text) -> Plan:
        parts, words = text.pieces, [piece.upper for piece in text.pieces]
        i = words.index("FOR") if "FOR" in words else 0
        if i < 3 or "CURSOR" not in words[:i]:
            raise PostgresError(SYNTAX, "DECLARE needs a name, CURSOR FOR and a SELECT.")
        outlives = "HOLD" in words[:i] and "WITHOUT" not in words[:i]
        inner = text.part(parts[i].stop, len(text.text))
        of = self._plan_of(inner)

        def run(asked: Asked) -> Result:
            if self._session.status == "I" and not outlives:
                raise PostgresError("25P01", "DECLARE needs a transaction, or WITH HOLD.")
            of.columns()
            asks = Asked(asked.literals)
            self.open(parts[1].name, Portal(of, asks, outlives, of_bytes=inner.n_bytes))
            return Result("DECLARE CURSOR")

        return Plan(nothing, run, types=of.types)

    def _fetch(self, text: Text) -> Plan:
        words = [p.upper for p in text.pieces[1:-1] if p.upper not in ("FROM", "IN", "FORWARD")]
        name, moves = text.pieces[-1].name, text.words[0] == "MOVE"
        if words in ([], ["NEXT"]):
            n = 1
        elif words == ["ALL"]:
            n = 0
        elif len(words) == 1 and words[0].isdecimal() and len(words[0]) < _DIGITS:
            n = int(words[0])
        else:
            raise PostgresError(NOT_SUPPORTED, "A cursor only goes forward: FETCH n, or ALL.")

        def columns() -> tuple[Column, ...] | None:
            plan = self.portal(name).plan
            return None if plan is None or moves else plan.columns()

        def run(asked: Asked) -> Result:
            portal = self.portal(name)
            result = self._begun(portal, asked)
            taken = portal.take(n) if n or words == ["ALL"] else ()
            shown = None if moves else (portal.result or result).columns
            tag = f"MOVE {len(taken)}" if moves else "FETCH"
            rows = () if moves else taken
            return replace(result, tag=tag, columns=shown, rows=rows)

        return Plan(columns, run)

    def _begun(self, portal: Portal, asked: Asked) -> Result:
        """What a cursor's statement says beside its rows, when the first FETCH runs it."""
        if portal.result is None and portal.plan is not None:
            portal.asked = replace(portal.asked, formats=asked.formats)
            found = portal.plan.run(portal.asked)
            self.ran(portal, found)
            return replace(found, rows=())
        if tuple(asked.formats) != tuple(portal.asked.formats):
            raise PostgresError(NOT_SUPPORTED, "A cursor has the format of its first FETCH.")
        return Result("FETCH")

    def _close(self, text: Text) -> Plan:
        name = text.pieces[-1].name

        def run() -> Result:
            if text.pieces[-1].upper == "ALL":
                self.portals.clear()
            elif self.portals.pop(name, None) is None:
                raise PostgresError(NO_PORTAL, f"No portal is called `{name[:60]}`.")
            return Result("CLOSE CURSOR")

        return acting(run)

    def _discard(self, text: Text) -> Plan:
        what = text.words[1] if len(text.words) > 1 else ""

        def run() -> Result:
            if what != "ALL":
                return Result(f"DISCARD {what}")
            if self._session.status != "I":
                raise PostgresError("25001", "DISCARD ALL cannot run in a transaction.")
            self.statements.clear()
            self.portals.clear()
            self._session.spent_nano = 0
            return Result("DISCARD ALL", parameters=self._session.reset())

        return acting(run)


_DIGITS: Final = 10
_LITERAL: Final = re.compile(r"-?v|TRUE|FALSE|NULL|ARRAY\[(-?v(,-?v)*)?\]")


def _split(parts: Sequence[Piece]) -> list[list[Piece]]:
    """The parts between commas outside parentheses."""
    found, depth = [list[Piece]()], 0
    for piece in parts:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(piece.text, 0)
        if piece.text == "," and depth == 0:
            found.append([])
        else:
            found[-1].append(piece)
    return found


def _oid(parts: Sequence[Piece]) -> int:
    """The type that words name; 0 for an unknown one."""
    kind, _ = type_named(parts, 0)
    return 0 if kind is None else kind.oid


def _literal(text: Text, parts: Sequence[Piece]) -> tuple[Literal, Piece | None]:
    """The value of a literal in EXECUTE; PostgresError."""
    signs = "".join("v" if p.kind in ("text", "number") else p.upper for p in parts)
    if not _LITERAL.fullmatch(signs):
        raise PostgresError(SYNTAX, "EXECUTE takes literals alone.")
    said = text.text[parts[0].start : parts[-1].stop]
    return Literal(said), parts[0] if len(parts) == 1 else None


_NO_COLUMNS: Final = (NOT_SUPPORTED, "The result has other columns than were described.")
_COUNTED: Final = ("SELECT", "FETCH")


class Extended:
    """Answers the messages of one connection; `run` runs a plan."""

    def __init__(self, stream: Stream, held: Held, run: Callable[[Plan, Asked], Result]) -> None:
        self._stream, self._held, self._run = stream, held, run

    def parse(self, fields: Fields) -> None:
        """Keep a statement under a name; nothing is asked."""
        name, text = fields.text(), fields.text()
        oids = [fields.oid() for _ in range(fields.count())]
        fields.end()
        self._held.keep(name, self._held.prepared(text, oids))
        self._stream.send(messages.PARSED)

    def bind(self, fields: Fields) -> None:
        """Give a statement its values."""
        portal, name = fields.text(), fields.text()
        forms = [fields.count() for _ in range(fields.count())]
        values = [fields.value() for _ in range(fields.count())]
        results = [fields.count() for _ in range(fields.count())]
        fields.end()
        prepared = self._held.statement(name)
        if len(values) != len(prepared.oids):
            n = len(prepared.oids)
            raise _wrong(f"The statement has {n} parameters, and {len(values)} came.")
        if not {*forms, *results} <= {0, 1} or len(forms) not in (0, 1, len(values)):
            raise _wrong("Formats are 0 or 1: one for all values, or one for each.")
        triples = zip(prepared.oids, formats_of(forms, len(values)), values, strict=True)
        literals = tuple(Parameter(oid, form == 1, value).literal for oid, form, value in triples)
        asked = Asked(literals, tuple(results))
        self._held.open(portal, Portal(prepared.plan, asked, of_bytes=prepared.n_bytes))
        self._stream.send(messages.BOUND)

    def describe(self, fields: Fields) -> None:
        """Tell the columns of a statement or portal, by its text alone."""
        kind, name = fields.take(1), fields.text()
        fields.end()
        if kind == b"S":
            prepared = self._held.statement(name)
            self._stream.send(messages.parameter_description(prepared.oids))
            self._describe(prepared.plan.columns() if prepared.plan else None, ())
        elif kind == b"P":
            portal = self._held.portal(name)
            self._held.described(portal, portal.plan.columns() if portal.plan else None)
            self._describe(portal.described, portal.asked.formats)
        else:
            raise violation("Describe needs the name of a statement or a portal.")

    def _describe(self, columns: Sequence[Column] | None, formats: Sequence[int]) -> None:
        if columns is None:
            self._stream.send(messages.NO_DATA)
        else:
            shown = formats_of(formats, len(columns))
            self._stream.send(messages.row_description(columns, shown))

    def execute(self, fields: Fields) -> None:
        """Run a portal, or go on with its rows."""
        name, most = fields.text(), fields.number(4)
        fields.end()
        portal = self._held.portal(name)
        if portal.plan is None:
            self._stream.send(messages.EMPTY_QUERY)
            return
        if portal.result is None:
            found = self._run(portal.plan, portal.asked)
            if portal.described is not None and portal.described != found.columns:
                raise PostgresError(*_NO_COLUMNS)
            self._held.ran(portal, found)
        assert portal.result is not None  # noqa: S101 - it has just run
        rows = portal.take(most if portal.result.copied is None else 0)
        send_rows(self._stream, portal.result, rows)
        if portal.left:
            self._stream.send(messages.SUSPENDED)
        else:
            self._stream.send(messages.complete(tag_of(portal.result, len(rows))))

    def close(self, fields: Fields) -> None:
        """Forget a statement or a portal."""
        kind, name = fields.take(1), fields.text()
        fields.end()
        if kind == b"S":
            self._held.statements.pop(name, None)
        elif kind == b"P":
            self._held.portals.pop(name, None)
        else:
            raise violation("Close needs the name of a statement or a portal.")
        self._stream.send(messages.CLOSED)


def send_rows(stream: Stream, result: Result, rows: Sequence[bytes]) -> None:
    """Send rows, or copied rows."""
    if result.copied is None:
        for row in rows:
            stream.send(messages.message(b"D", row))
        return
    stream.send(messages.copy_out(result.copied.n_columns, is_binary=result.copied.is_binary))
    for row in rows:
        stream.send(messages.message(b"d", row))
    stream.send(messages.COPIED)


def tag_of(result: Result, n_rows: int) -> str:
    """The words that a client prints after a statement."""
    return f"{result.tag} {n_rows}" if result.tag in _COUNTED else result.tag


def _wrong(message: str) -> PostgresError:
    """An error of the protocol after which the connection lives on, as the message was whole."""
    return PostgresError(PROTOCOL_VIOLATION, message)
