"""The extended protocol: Parse, Bind, Describe, Execute and Close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from qserver.postgres.held import Held, Portal
from qserver.postgres.results import Asked, Plan, Result
from qserver.postgres.wire import messages
from qserver.postgres.wire.faults import NOT_SUPPORTED, PROTOCOL_VIOLATION, PostgresError, violation
from qserver.postgres.wire.messages import Fields, Stream
from qserver.postgres.wire.values import Column, Parameter, formats_of

_NO_COLUMNS: Final = (NOT_SUPPORTED, "The result has other columns than were described.")
_COUNTED: Final = ("SELECT", "FETCH")


class Extended:
    """Answers the messages of one connection; `run`: does what a plan does."""

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
            raise _wrong("A format must be 0 or 1, for each value or for all.")
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
            raise violation("Describe must name a statement or a portal.")

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
            raise violation("Close must name a statement or a portal.")
        self._stream.send(messages.CLOSED)


def send_rows(stream: Stream, result: Result, rows: Sequence[bytes]) -> None:
    """Send rows, or what is copied out."""
    if result.copied is None:
        for row in rows:
            stream.send(messages.message(b"D", row))
        return
    stream.send(messages.copy_out(result.copied.n_columns, is_binary=result.copied.is_binary))
    for row in rows:
        stream.send(messages.message(b"d", row))
    stream.send(messages.COPIED)


def tag_of(result: Result, n_rows: int) -> str:
    """What a client prints when a statement is done."""
    return f"{result.tag} {n_rows}" if result.tag in _COUNTED else result.tag


def _wrong(message: str) -> PostgresError:
    """An error of the protocol after which the connection lives on, as the message was whole."""
    return PostgresError(PROTOCOL_VIOLATION, message)
