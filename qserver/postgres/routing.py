"""The subject of a statement: the connection, a dataset, or the catalogue of datasets."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Final

from qserver.errors import NotFoundError, QServerError, SqlError
from qserver.postgres.catalogue.engine import Catalogue
from qserver.postgres.column_choice import chosen
from qserver.postgres.commands import command
from qserver.postgres.prepared_statements import Held
from qserver.postgres.results import Asked, Plan, Result, copying, given
from qserver.postgres.statements.asker import Asker
from qserver.postgres.statements.dataset_answers import PRICE
from qserver.postgres.statements.interval_ends import ends_of
from qserver.postgres.statements.value_types import types_of
from qserver.postgres.wire.faults import SYNTAX, PostgresError, fault_of
from qserver.postgres.wire.messages import Stream
from qserver.postgres.wire.texts import Text, pieces
from qserver.postgres.wire.values import BY_NAME, TEXT, Column, Literal, Type
from qserver.query.sql.tables.catalogue_relations import Names, Table, column_types
from qserver.query.sql.text import SqlText, check_beginning, dataset_of

_READS: Final = frozenset(
    ["SELECT", "WITH", "EXPLAIN", "VALUES", "TABLE", "DESCRIBE", "DESC", "SHOW", "("]
)
_SCHEMAS: Final = ("information_schema", "pg_catalog")
_SYSTEM: Final = re.compile("information_schema|pg_", re.IGNORECASE)


class Router:
    """Plans the statements of one connection.

    Attributes:
        held: the prepared statements and portals of the connection.
    """

    def __init__(self, asker: Asker, stream: Stream, process: int) -> None:
        self._asker, self._process = asker, process
        self._session = asker.session
        self._catalogue = Catalogue(stream, asker.turns)
        self.held = Held(self._session, self.plan)

    def plan(self, text: Text, *, is_copied: bool = False) -> Plan:
        """The plan of a statement, alone or within COPY; PostgresError."""
        if not text.words:
            raise PostgresError(SYNTAX, "A statement is missing here.")
        text = _without_database(text, self._session.database)
        found = self.held.command(text) or command(text, self._session)
        if found is not None:
            return found
        if text.words[0] == "COPY":
            return copying(text, partial(self.plan, is_copied=True))
        if text.words[:2] == ("SHOW", "TABLES") or text.words[:3] == ("SHOW", "FULL", "TABLES"):
            names = [(status.name,) for status in self._asker.service.datasets()]
            return given("SHOW", (Column("table_name", TEXT),), names)
        if text.words[0] not in _READS:
            raise PostgresError(
                SYNTAX,
                "Only SELECT can be asked.",
                position=text.start + 1,
                hint="Nearest: SELECT.",
            )
        if (found := chosen(text, self.plan, is_copied=is_copied)) is not None:
            return found
        dataset = self._dataset(text)
        return self._of_catalogue(text) if dataset is None else self._asker.plan(dataset, text)

    def close(self) -> None:
        """Forget the catalogue."""
        self._catalogue.close()

    def _dataset(self, text: Text) -> str | None:
        """The dataset that a text reads; None if it reads something else."""
        if _reads_catalogue(text.text):
            return None
        try:
            check_beginning(SqlText(text.text))
        except SqlError as exc:
            start = text.start
            raise fault_of(exc, text=text.text, place=lambda at: at and at + start) from exc
        try:
            found = dataset_of(text.text)
        except QServerError:
            return None
        with contextlib.suppress(NotFoundError):
            self._asker.service.domain(found)
            return found
        names = [status.name for status in self._asker.service.datasets()]
        return next((name for name in names if name.lower() == found.lower()), None)

    def _of_catalogue(self, text: Text) -> Plan:
        """A query of the catalogue, which costs nothing."""

        if text.words[0] == "EXPLAIN" and "ANALYZE" not in text.words:
            return given("SELECT", PRICE, [(0.0, None, True, False, "free", 0.0, None)])

        def run(asked: Asked) -> Result:
            return self._catalogue.run(text.bound(asked.literals)[0], self._names(), asked.formats)

        def columns() -> tuple[Column, ...]:
            sent, _ = text.bound([Literal("NULL")] * text.n_parameters)
            return self._catalogue.columns(sent, self._names())

        return Plan(columns, run, types=lambda: types_of(text, _types()))

    def _names(self) -> Names:
        """The content of the catalogue for the present datasets."""
        session, service = self._session, self._asker.service
        tables = list[Table]()
        for status in service.datasets():
            try:
                domain = service.domain(status.name)
            except NotFoundError:
                continue  # detached between the two readings
            ends = ends_of(domain) if session.names_ends else ()
            tables.append(Table.of(status.name, domain, ends))
        settings = tuple(session.all().items())
        return Names(session.database, session.user, self._process, tuple(tables), settings)


@cache
def _types() -> Mapping[str, Type]:
    return {name: BY_NAME[kind] for name, kind in column_types().items()}


def _without_database(text: Text, database: str) -> Text:
    """The text without the database's name before a schema."""
    escaped = re.escape(database.replace('"', '""'))
    if not re.search(rf'{escaped}"?\s*[./-]', text.text):
        return text
    parts, found = text.pieces, text.text
    for i in range(len(parts) - 3):
        first, dot, schema, other = parts[i : i + 4]
        is_own = (first.name, dot.text, other.text) == (database, ".", ".")
        if is_own and schema.name.lower() in ("public", *_SCHEMAS):
            found = found[: first.start].ljust(schema.start) + found[schema.start :]
    return text if found == text.text else Text(found, text.start)


def _reads_catalogue(text: str) -> bool:
    """Whether FROM, JOIN or TABLE names a relation of a system's schema, or like pg_class."""
    if not _SYSTEM.search(text):
        return False
    for before, piece in pairwise(pieces(text)):
        if before.upper in ("FROM", "JOIN", "TABLE") and piece.kind in ("word", "name"):
            name = piece.name.lower()
            if name in _SCHEMAS or name.startswith("pg_"):
                return True
    return False
