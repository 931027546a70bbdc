"""Prepared statements and portals: Parse, Bind, Describe, Execute and Close."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from qserver.postgres.results import Plan, Result
from qserver.postgres.routing import Router
from qserver.postgres.wire import messages
from qserver.postgres.wire.faults import (
    NO_PORTAL,
    NO_STATEMENT,
    NOT_SUPPORTED,
    SYNTAX,
    TOO_LARGE,
    PostgresError,
    violation,
)
from qserver.postgres.wire.messages import Fields, Stream
from qserver.postgres.wire.texts import Text, statements
from qserver.postgres.wire.values import TEXT, Column, Literal, Parameter, encoders
from qserver.query.sql.plain import MAX_CHARACTERS

_MOST: Final = 1000
_NO_COLUMNS: Final = (NOT_SUPPORTED, "The result has other columns than were described.")


@dataclass(frozen=True)
class _Prepared:
    """A statement with places for values; of an empty text both are None."""

    text: Text | None
    plan: Plan | None
    oids: tuple[int, ...]


@dataclass
class _Portal:
    """A statement with its values, and what is left of its rows once it ran."""

    prepared: _Prepared
    literals: tuple[Literal, ...]
    formats: tuple[int, ...]
    columns: tuple[Column, ...] | None = None
    result: Result | None = None
    n_sent: int = 0


class Extended:
    """The prepared statements and portals of one connection.

    Args:
        run: does what a plan does.
    """

    def __init__(
        self, stream: Stream, router: Router, run: Callable[[Plan, tuple[Literal, ...]], Result]
    ) -> None:
        self._stream, self._router, self._run = stream, router, run
        self._statements: dict[str, _Prepared] = {}
        self._portals: dict[str, _Portal] = {}

    def end_portals(self) -> None:
        """Forget all portals, as the end of a transaction does."""
        self._portals.clear()

    def forget(self, name: str) -> None:
        """Forget a prepared statement, or all of them where the name is ''."""
        if name:
            self._statements.pop(name, None)
        else:
            self._statements.clear()

    def parse(self, fields: Fields) -> None:
        """Keep a statement under a name; nothing is asked."""
        name, text = fields.text(), fields.text()
        oids = [fields.oid() for _ in range(fields.count())]
        fields.end()
        if len(text) > MAX_CHARACTERS:
            raise PostgresError(TOO_LARGE, f"A text has at most {MAX_CHARACTERS:,} characters.")
        if name and len(self._statements) >= _MOST:
            raise PostgresError(TOO_LARGE, f"At most {_MOST:,} statements can be prepared.")
        self._statements[name] = self._prepared(text, oids)
        self._stream.send(messages.PARSED)

    def _prepared(self, text: str, oids: Sequence[int]) -> _Prepared:
        found = statements(text)
        if len(found) > 1:
            raise PostgresError(SYNTAX, "Only one statement can be prepared at once.")
        if not found:
            return _Prepared(None, None, ())
        n = found[0].n_parameters
        if n > _MOST:
            raise PostgresError(TOO_LARGE, f"A statement has at most {_MOST:,} parameters.")
        # What a client leaves to us is sent as a text, which is read by what it is compared with.
        types = [oids[i] if i < len(oids) and oids[i] else TEXT.oid for i in range(n)]
        return _Prepared(found[0], self._router.plan(found[0]), tuple(types))

    def bind(self, fields: Fields) -> None:
        """Give a statement its values."""
        portal, name = fields.text(), fields.text()
        forms = [fields.count() for _ in range(fields.count())]
        values = [fields.value() for _ in range(fields.count())]
        results = [fields.count() for _ in range(fields.count())]
        fields.end()
        prepared = self._statement(name)
        if len(values) != len(prepared.oids):
            raise violation(
                f"The statement has {len(prepared.oids)} parameters, and {len(values)} came."
            )
        if not {*forms, *results} <= {0, 1} or len(forms) not in (0, 1, len(values)):
            raise violation("A format must be 0 or 1, for each value or for all.")
        formats = forms * len(values) if len(forms) == 1 else forms or [0] * len(values)
        triples = zip(prepared.oids, formats, values, strict=True)
        literals = tuple(Parameter(oid, form == 1, value).literal for oid, form, value in triples)
        if portal and len(self._portals) >= _MOST:
            raise PostgresError(TOO_LARGE, f"At most {_MOST:,} portals can be open.")
        self._portals[portal] = _Portal(prepared, literals, tuple(results))
        self._stream.send(messages.BOUND)

    def describe(self, fields: Fields) -> None:
        """Tell the columns of a statement or portal, by its text alone."""
        kind, name = fields.take(1), fields.text()
        fields.end()
        if kind == b"S":
            prepared = self._statement(name)
            self._stream.send(messages.parameter_description(prepared.oids))
            columns = prepared.plan.columns() if prepared.plan else None
            self._describe(columns, ())
        elif kind == b"P":
            portal = self._portal(name)
            plan = portal.prepared.plan
            portal.columns = plan.columns() if plan else None
            self._describe(portal.columns, portal.formats)
        else:
            raise violation("Describe must name a statement or a portal.")

    def _describe(self, columns: Sequence[Column] | None, formats: Sequence[int]) -> None:
        if columns is None:
            self._stream.send(messages.NO_DATA)
        else:
            shown = _formats(formats, len(columns))
            self._stream.send(messages.row_description(columns, shown))

    def execute(self, fields: Fields) -> None:
        """Run a portal, or go on with its rows."""
        name, most = fields.text(), fields.number(4)
        fields.end()
        portal = self._portal(name)
        plan = portal.prepared.plan
        if plan is None:
            self._stream.send(messages.EMPTY_QUERY)
            return
        if portal.result is None:
            portal.result = self._run(plan, portal.literals)
            if portal.columns is not None and portal.columns != portal.result.columns:
                raise PostgresError(*_NO_COLUMNS)
        self._rows(portal, portal.result, most)

    def _rows(self, portal: _Portal, result: Result, most: int) -> None:
        columns = result.columns or ()
        encode = encoders(columns, _formats(portal.formats, len(columns)))
        stop = len(result.rows) if most <= 0 else portal.n_sent + most
        rows = result.rows[portal.n_sent : stop]
        for row in rows:
            self._stream.send(
                messages.data_row([make(v) for make, v in zip(encode, row, strict=True)])
            )
        portal.n_sent += len(rows)
        if 0 < most == len(rows) and portal.n_sent < len(result.rows):
            self._stream.send(messages.SUSPENDED)
            return
        tag = f"{result.tag} {len(rows)}" if result.tag == "SELECT" else result.tag
        self._stream.send(messages.complete(tag))

    def close(self, fields: Fields) -> None:
        """Forget a statement or a portal."""
        kind, name = fields.take(1), fields.text()
        fields.end()
        if kind == b"S":
            self._statements.pop(name, None)
        elif kind == b"P":
            self._portals.pop(name, None)
        else:
            raise violation("Close must name a statement or a portal.")
        self._stream.send(messages.CLOSED)

    def _statement(self, name: str) -> _Prepared:
        found = self._statements.get(name)
        if found is None:
            raise PostgresError(NO_STATEMENT, f"No statement is called `{name[:60]}`.")
        return found

    def _portal(self, name: str) -> _Portal:
        found = self._portals.get(name)
        if found is None:
            raise PostgresError(NO_PORTAL, f"No portal is called `{name[:60]}`.")
        return found


def _formats(formats: Sequence[int], n: int) -> list[int]:
    """The format of each column: of each its own, one for all, or text."""
    if len(formats) not in (0, 1, n):
        raise violation("A format must come for each column, or one for all.")
    return list(formats) * n if len(formats) == 1 else list(formats) or [0] * n
