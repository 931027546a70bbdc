"""What a statement is about: the connection, a dataset, or the catalogue of datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from qserver.errors import NotFoundError, QServerError, SqlError
from qserver.postgres.asking import Asker
from qserver.postgres.catalogue.contents import Names, Table
from qserver.postgres.catalogue.engine import Catalogue
from qserver.postgres.commands import command
from qserver.postgres.results import Plan, Result
from qserver.postgres.wire.faults import SYNTAX, PostgresError, fault_of
from qserver.postgres.wire.texts import Piece, Text
from qserver.postgres.wire.values import DATE, FLOAT8, INT4, TEXT, Column, Literal, Type
from qserver.query.domain import Domain
from qserver.query.sql.plain import check_beginning, dataset_of
from qserver.query.sql.text import SqlText

_READS: Final = frozenset(
    ["SELECT", "WITH", "EXPLAIN", "VALUES", "TABLE", "DESCRIBE", "DESC", "SHOW", "("]
)
_TYPES: Final[Mapping[str, Type]] = {
    "integer": INT4,
    "real": FLOAT8,
    "date": DATE,
    "period": DATE,
}
_SCHEMAS: Final = ("information_schema", "pg_catalog")


class Router:
    """Plans the statements of one connection."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._session = asker.session
        self._catalogue: tuple[Names, Catalogue] | None = None

    def plan(self, text: Text) -> Plan:
        """What a statement would do; PostgresError."""
        found = command(text, self._session)
        if found is not None:
            return found
        if text.words[:2] == ("SHOW", "TABLES") or text.words[:3] == ("SHOW", "FULL", "TABLES"):
            return self._tables()
        if text.words[0] not in _READS:
            raise PostgresError(
                SYNTAX,
                "Only SELECT can be asked.",
                position=text.start + 1,
                hint="Nearest: SELECT.",
            )
        dataset = self._dataset(text)
        return self._of_catalogue(text) if dataset is None else self._asker.plan(dataset, text)

    def close(self) -> None:
        """Forget the catalogue."""
        if self._catalogue is not None:
            self._catalogue[1].close()

    def _dataset(self, text: Text) -> str | None:
        """The dataset that a text reads; None where it reads something else."""
        if _reads_catalogue(text.pieces):
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
        names = [status.name for status in self._asker.service.datasets()]
        if found in names:
            return found
        return next((name for name in names if name.lower() == found.lower()), None)

    def _of_catalogue(self, text: Text) -> Plan:
        """A query of the catalogue, which costs nothing: its columns are those of its rows."""

        def run(literals: Sequence[Literal]) -> Result:
            sent, _ = text.bound(literals)
            return self._opened().run(sent)

        def columns() -> tuple[Column, ...] | None:
            return run([Literal("NULL")] * text.n_parameters).columns

        return Plan(columns, run)

    def _opened(self) -> Catalogue:
        """The catalogue of the present datasets."""
        session, service = self._session, self._asker.service
        tables = list[Table]()
        for status in service.datasets():
            try:
                tables.append(Table(status.name, _columns(service.domain(status.name))))
            except NotFoundError:
                continue  # detached between the two readings
        settings = tuple(session.all().items())
        names = Names(session.database, session.user, tuple(tables), settings)
        if self._catalogue is None or self._catalogue[0] != names:
            self.close()
            self._catalogue = names, Catalogue(names, session)
        return self._catalogue[1]

    def _tables(self) -> Plan:
        columns = (Column("table_name", TEXT),)

        def run(_: object) -> Result:
            rows = [(status.name,) for status in self._asker.service.datasets()]
            return Result("SHOW", columns, rows)

        return Plan(_constant(columns), run)


def _constant(columns: tuple[Column, ...]) -> Callable[[], tuple[Column, ...]]:
    return lambda: columns


def _columns(domain: Domain) -> tuple[tuple[str, Type], ...]:
    named = [(a.name, _TYPES.get(a.kind, TEXT)) for a in domain.attributes]
    return (*named, *((name, TEXT) for name in domain.level_names))


def _reads_catalogue(parts: Sequence[Piece]) -> bool:
    """Whether a FROM or JOIN names a table of a system's schema, or of a name like pg_class."""
    for before, piece in pairwise(parts):
        if before.upper in ("FROM", "JOIN") and piece.kind in ("word", "name"):
            name = piece.text.strip('"').lower()
            if name in _SCHEMAS or name.startswith("pg_"):
                return True
    return False
