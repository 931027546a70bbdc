"""What a statement is about: the connection, a dataset, or the catalogue of datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from qserver.errors import NotFoundError, QServerError, SqlError
from qserver.postgres.asking import Asker
from qserver.postgres.catalogue.contents import Names, Table
from qserver.postgres.catalogue.engine import Catalogue
from qserver.postgres.results import Plan, Result
from qserver.postgres.session import Session
from qserver.postgres.wire.faults import NOT_SUPPORTED, READ_ONLY, SYNTAX, PostgresError, fault_of
from qserver.postgres.wire.texts import Piece, Text
from qserver.postgres.wire.values import DATE, FLOAT8, INT4, TEXT, Column, Literal, Type
from qserver.query.domain import Domain
from qserver.query.sql.plain import check_beginning, dataset_of
from qserver.query.sql.text import SqlText

_WRITES = frozenset(
    (
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "CREATE",
        "ALTER",
        "DROP",
        "TRUNCATE",
        "COPY",
        "GRANT",
        "REVOKE",
        "COMMENT",
        "VACUUM",
        "ANALYZE",
        "REINDEX",
        "CLUSTER",
        "REFRESH",
        "LOCK",
        "IMPORT",
        "SECURITY",
        "REASSIGN",
        "LOAD",
        "CALL",
        "DO",
        "NOTIFY",
    )
)
_NOT_HERE = frozenset(["DECLARE", "FETCH", "MOVE", "PREPARE", "EXECUTE"])
_ENDS = ("COMMIT", "END", "ROLLBACK", "ABORT")


def command(text: Text, session: Session) -> Plan | None:
    """What a command does; None for another text.

    Raises:
        PostgresError: it would write, or is not known here.
    """
    word = text.words[0]
    if word in _WRITES:
        raise PostgresError(
            READ_ONLY, f"{word} is not possible: nothing can be written here.", hint="Only SELECT."
        )
    if word in _NOT_HERE:
        raise PostgresError(NOT_SUPPORTED, f"{word} is not supported.")
    made = _COMMANDS.get(word)
    return None if made is None else made(text, session)


def _plain(tag: str) -> Callable[[Text, Session], Plan]:
    return lambda _text, _session: Plan(lambda: None, lambda _: Result(tag))


def _begin(_text: Text, session: Session) -> Plan:
    def run(_: Sequence[Literal]) -> Result:
        warned = () if session.begin() else ("There is already a transaction in progress.",)
        return Result("BEGIN", warnings=warned)

    return Plan(lambda: None, run)


def _end(text: Text, session: Session) -> Plan:
    keeps = text.words[0] in ("COMMIT", "END")
    if "TO" in text.words:  # to a savepoint: what was set since stays set
        return Plan(lambda: None, lambda _: _to_savepoint(session), survives=True)

    def run(_: Sequence[Literal]) -> Result:
        tag = "COMMIT" if keeps and session.status != "E" else "ROLLBACK"
        before = session.reported()
        warned = () if session.end(keeps=keeps) else ("There is no transaction in progress.",)
        told = {k: v for k, v in session.reported().items() if before[k] != v}
        return Result(tag, warnings=warned, parameters=told)

    return Plan(lambda: None, run, survives=True)


def _to_savepoint(session: Session) -> Result:
    if session.status == "E":
        session.status = "T"
    return Result("ROLLBACK")


def _set(text: Text, session: Session) -> Plan:
    parts = list(text.pieces[1:])
    scope = parts[0].upper if parts else ""
    if scope in ("LOCAL", "SESSION") and len(parts) > 1:
        parts = parts[1:]
    if parts and parts[0].upper in ("CHARACTERISTICS", "TRANSACTION"):
        return Plan(lambda: None, lambda _: Result("SET"))
    name, value = _assigned(parts)

    def run(literals: Sequence[Literal]) -> Result:
        del literals
        told = session.put(name, value, local=scope == "LOCAL")
        return Result("SET", parameters=told)

    return Plan(lambda: None, run)


def _assigned(parts: Sequence[Piece]) -> tuple[str, str | None]:
    """The name and the value; None for the default. PostgresError."""
    words = [piece.upper for piece in parts]
    if words[:2] == ["TIME", "ZONE"]:
        name, rest = "timezone", parts[2:]
    elif words[:1] == ["NAMES"]:
        name, rest = "client_encoding", parts[1:]
    else:
        i = next((i for i, w in enumerate(words) if w in ("=", "TO")), -1)
        name, rest = _name(parts[:i]), parts[i + 1 :]
        if i < 1 or not rest:
            raise PostgresError(SYNTAX, "SET must say a name, = and a value.")
    if len(rest) == 1 and rest[0].upper == "DEFAULT":
        return name, None
    return name, "".join(", " if p.text == "," else _unquoted(p) for p in rest)


def _name(parts: Sequence[Piece]) -> str:
    return "".join(_unquoted(piece) for piece in parts).lower()


def _unquoted(piece: Piece) -> str:
    if piece.kind == "text" and piece.text.startswith("'"):
        return piece.text[1:-1].replace("''", "'")
    if piece.kind == "name":
        return piece.text[1:-1].replace('""', '"')
    return piece.text


def _reset(text: Text, session: Session) -> Plan:
    name = _name(text.pieces[1:])

    def run(_: Sequence[Literal]) -> Result:
        told = session.reset() if name == "all" else session.put(name, None)
        return Result("RESET", parameters=told)

    return Plan(lambda: None, run)


def _discard(text: Text, session: Session) -> Plan:
    del text
    return Plan(lambda: None, lambda _: _discarded(session))


def _discarded(session: Session) -> Result:
    return Result("DISCARD ALL", parameters=session.reset(), forgets="")


def _deallocate(text: Text, session: Session) -> Plan:
    del session
    last = text.pieces[-1]
    name = "" if last.upper == "ALL" else _unquoted(last)
    return Plan(lambda: None, lambda _: Result("DEALLOCATE", forgets=name))


def _show(text: Text, session: Session) -> Plan | None:
    words = [piece.upper for piece in text.pieces[1:]]
    if not words:
        raise PostgresError(SYNTAX, "SHOW must name a setting.")
    if words[0] in ("TABLES", "FULL", "COLUMNS"):
        return None
    if words == ["ALL"]:
        names = tuple(Column(name, TEXT) for name in ("name", "setting", "description"))
        rows = [(name, value, "") for name, value in session.all().items()]
        return Plan(lambda: names, lambda _: Result("SHOW", names, rows))
    name = _name(text.pieces[1:])
    if words == ["TRANSACTION", "ISOLATION", "LEVEL"]:
        name = "transaction_isolation"
    elif words == ["TIME", "ZONE"]:
        name = "timezone"
    columns = (Column(name, TEXT),)
    return Plan(lambda: columns, lambda _: Result("SHOW", columns, [(session.get(name),)]))


_COMMANDS: Mapping[str, Callable[[Text, Session], Plan | None]] = {
    "BEGIN": _begin,
    "START": _begin,
    **dict.fromkeys(_ENDS, _end),
    "SAVEPOINT": _plain("SAVEPOINT"),
    "RELEASE": _plain("RELEASE"),
    "SET": _set,
    "RESET": _reset,
    "DISCARD": _discard,
    "SHOW": _show,
    "DEALLOCATE": _deallocate,
    "CLOSE": _plain("CLOSE CURSOR"),
    "LISTEN": _plain("LISTEN"),
    "UNLISTEN": _plain("UNLISTEN"),
    "CHECKPOINT": _plain("CHECKPOINT"),
}


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
