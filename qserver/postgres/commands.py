"""Commands about the connection: settings, transactions, and its stored statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from qserver.postgres.results import Asked, Plan, Result, given, nothing
from qserver.postgres.session import Session
from qserver.postgres.wire.faults import READ_ONLY, SYNTAX, PostgresError
from qserver.postgres.wire.texts import Text
from qserver.postgres.wire.values import TEXT, Column
from qserver.query.sql.text import Piece

_WRITING = (
    "INSERT UPDATE DELETE MERGE CREATE ALTER DROP TRUNCATE GRANT REVOKE COMMENT VACUUM ANALYZE "
    "REINDEX CLUSTER REFRESH LOCK IMPORT SECURITY REASSIGN LOAD CALL DO NOTIFY"
)
_WRITES = frozenset(_WRITING.split())


def command(text: Text, session: Session) -> Plan | None:
    """The plan of a command; None for another text.

    Raises:
        PostgresError: it would write.
    """
    word = text.words[0]
    if word in _WRITES:
        raise PostgresError(
            READ_ONLY, f"{word} is not possible: nothing can be written here.", hint="Only SELECT."
        )
    made = _COMMANDS.get(word)
    return None if made is None else made(text, session)


def acting(act: Callable[[], Result], *, survives: bool = False) -> Plan:
    """The plan of a command without rows."""
    return Plan(nothing, lambda _: act(), survives=survives)


def _plain(tag: str) -> Callable[[Text, Session], Plan]:
    return lambda _text, _session: acting(lambda: Result(tag))


def _begin(_text: Text, session: Session) -> Plan:
    def run() -> Result:
        warned = () if session.begin() else ("There is already a transaction in progress.",)
        return Result("BEGIN", warnings=warned)

    return acting(run)


def _end(text: Text, session: Session) -> Plan:
    keeps = text.words[0] in ("COMMIT", "END")
    if "TO" in text.words:  # to a savepoint: later settings stay set
        return acting(lambda: _to_savepoint(session), survives=True)

    def run() -> Result:
        tag = "COMMIT" if keeps and session.status != "E" else "ROLLBACK"
        before = session.reported()
        warned = () if session.end(keeps=keeps) else ("There is no transaction in progress.",)
        told = {k: v for k, v in session.reported().items() if before[k] != v}
        return Result(tag, warnings=warned, parameters=told)

    return acting(run, survives=True)


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
        return acting(lambda: Result("SET"))
    name, value = _assigned(parts)
    return acting(
        lambda: Result("SET", parameters=session.put(name, value, local=scope == "LOCAL"))
    )


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
            raise PostgresError(SYNTAX, "SET needs a name, = and a value.")
    if len(rest) == 1 and rest[0].upper == "DEFAULT":
        return name, None
    return name, "".join(", " if p.text == "," else p.name for p in rest)


def _name(parts: Sequence[Piece]) -> str:
    return "".join(piece.name for piece in parts).lower()


def _reset(text: Text, session: Session) -> Plan:
    name = _name(text.pieces[1:])

    def run() -> Result:
        told = session.reset() if name == "all" else session.put(name, None)
        return Result("RESET", parameters=told)

    return acting(run)


def _show(text: Text, session: Session) -> Plan | None:
    words = [piece.upper for piece in text.pieces[1:]]
    if not words:
        raise PostgresError(SYNTAX, "SHOW needs the name of a setting.")
    if words[0] in ("TABLES", "FULL", "COLUMNS"):
        return None
    if words == ["ALL"]:
        names = tuple(Column(name, TEXT) for name in ("name", "setting", "description"))
        return given("SHOW", names, [(k, value, "") for k, value in session.all().items()])
    name = _name(text.pieces[1:])
    if words == ["TRANSACTION", "ISOLATION", "LEVEL"]:
        name = "transaction_isolation"
    elif words == ["TIME", "ZONE"]:
        name = "timezone"
    columns = (Column(name, TEXT),)

    def run(asked: Asked) -> Result:
        return given("SHOW", columns, [(session.get(name),)]).run(asked)

    return Plan(lambda: columns, run)


_COMMANDS: Mapping[str, Callable[[Text, Session], Plan | None]] = {
    "BEGIN": _begin,
    "START": _begin,
    **dict.fromkeys(("COMMIT", "END", "ROLLBACK", "ABORT"), _end),
    "SAVEPOINT": _plain("SAVEPOINT"),
    "RELEASE": _plain("RELEASE"),
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "LISTEN": _plain("LISTEN"),
    "UNLISTEN": _plain("UNLISTEN"),
    "CHECKPOINT": _plain("CHECKPOINT"),
}
