"""SET, SHOW, BEGIN and the like: statements about the connection, which read no data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from qserver.postgres.results import Plan, Result
from qserver.postgres.session import Session
from qserver.postgres.wire.faults import (
    NOT_SUPPORTED,
    READ_ONLY,
    SYNTAX,
    PostgresError,
)
from qserver.postgres.wire.texts import Piece, Text
from qserver.postgres.wire.values import TEXT, Column, Literal

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
