"""The functions that queries of the catalogue call, with the types of what they give."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, Final

from qserver import __version__
from qserver.postgres.catalogue.contents import ARRAYS, SQL_NAMES, TEXTS, Names
from qserver.postgres.session import SERVER_VERSION, Session
from qserver.postgres.wire.values import BOOL, INT4, INT8, NAME, OID, TEXT, Type, elements

VERSION: Final = f"PostgreSQL {SERVER_VERSION} (qserver {__version__})"
_NOTHING: Final[Mapping[str, Type]] = {
    "array_to_string": TEXT,
    "col_description": TEXT,
    "inet_client_addr": TEXT,
    "inet_client_port": INT4,
    "inet_server_addr": TEXT,
    "inet_server_port": INT4,
    "obj_description": TEXT,
    "pg_get_constraintdef": TEXT,
    "pg_get_expr": TEXT,
    "pg_get_function_arguments": TEXT,
    "pg_get_function_identity_arguments": TEXT,
    "pg_get_function_result": TEXT,
    "pg_get_indexdef": TEXT,
    "pg_get_partkeydef": TEXT,
    "pg_get_partition_constraintdef": TEXT,
    "pg_get_ruledef": TEXT,
    "pg_get_serial_sequence": TEXT,
    "pg_get_statisticsobjdef_columns": TEXT,
    "pg_get_triggerdef": TEXT,
    "pg_get_viewdef": TEXT,
    "pg_my_temp_schema": OID,
    "pg_tablespace_location": TEXT,
    "shobj_description": TEXT,
    "pg_table_size": INT8,
    "pg_relation_size": INT8,
    "pg_total_relation_size": INT8,
    "pg_indexes_size": INT8,
    "pg_database_size": INT8,
    "pg_size_pretty": TEXT,
    "pg_relation_filenode": OID,
    "pg_postmaster_start_time": TEXT,
}
_TRUE: Final = (
    "has_any_column_privilege has_column_privilege has_database_privilege has_schema_privilege "
    "has_table_privilege pg_collation_is_visible pg_function_is_visible pg_has_role "
    "pg_operator_is_visible pg_opclass_is_visible pg_table_is_visible pg_type_is_visible"
)
_FALSE: Final = (
    "has_function_privilege has_sequence_privilege pg_is_in_recovery pg_is_other_temp_schema "
    "pg_relation_is_publishable pg_relation_is_updatable row_security_active"
)
_OTHER: Final[Mapping[str, Type]] = {
    "array_length": INT4,
    "array_upper": INT4,
    "current_catalog": NAME,
    "current_database": NAME,
    "current_role": NAME,
    "current_schema": NAME,
    "current_schemas": TEXTS,
    "current_setting": TEXT,
    "current_user": NAME,
    "format_type": TEXT,
    "pg_array": TEXTS,
    "pg_array_agg": TEXTS,
    "pg_backend_pid": INT4,
    "pg_client_encoding": NAME,
    "pg_element": TEXT,
    "pg_encoding_to_char": NAME,
    "pg_get_userbyid": NAME,
    "pg_in_array": BOOL,
    "pg_regclass": OID,
    "pg_regex": BOOL,
    "pg_regtype": OID,
    "quote_ident": TEXT,
    "session_user": NAME,
    "set_config": TEXT,
    "to_regclass": OID,
    "to_regtype": OID,
    "txid_current": INT8,
    "user": NAME,
    "version": TEXT,
}
FUNCTION_TYPES: Final[Mapping[str, Type]] = {
    **_NOTHING,
    **dict.fromkeys(_TRUE.split(), BOOL),
    **dict.fromkeys(_FALSE.split(), BOOL),
    **_OTHER,
}
_SYSTEM_OIDS: Final[Mapping[str, int]] = {
    "pg_type": 1247,
    "pg_attribute": 1249,
    "pg_proc": 1255,
    "pg_class": 1259,
    "pg_attrdef": 2604,
    "pg_constraint": 2606,
    "pg_index": 2610,
    "pg_namespace": 2615,
    "pg_trigger": 2620,
    "pg_rewrite": 2618,
    "pg_database": 1262,
    "pg_tablespace": 1213,
    "pg_authid": 1260,
    "pg_am": 2601,
    "pg_extension": 3079,
}
_ALIASES: Final[Mapping[str, str]] = {
    "int": "integer",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "bool": "boolean",
    "varchar": "character varying",
    "decimal": "numeric",
}
_MOST_TEXT: Final = 10_000


_MOST_STARS: Final = 4
_NAME_PATTERN: Final = re.compile(r"(\^?)\(?((?:[^()*+?{}\[\]\\$]|\.\*)*)\)?(\$?)")


class PatternError(Exception):
    """A regular expression is more than the pattern of a name."""


class NoTableError(Exception):
    """No table has the name that was cast."""


def register(connection: sqlite3.Connection, names: Names, session: Session) -> None:
    """Let a connection call them."""

    def add(name: str, function: Callable[..., Any], n: int = -1) -> None:
        connection.create_function(name, n, function)

    for name in _NOTHING:
        add(name, lambda *_: None)
    for name in _TRUE.split():
        add(name, lambda *_: 1)
    for name in _FALSE.split():
        add(name, lambda *_: 0)
    for name in ("current_database", "current_catalog"):
        add(name, lambda: names.database)
    for name in ("current_user", "session_user", "current_role", "user"):
        add(name, lambda: names.user)
    add("pg_get_userbyid", lambda _: names.user)
    add("current_schema", lambda: "public")
    add("current_schemas", lambda with_system: "{pg_catalog,public}" if with_system else "{public}")
    add("current_setting", lambda name, *_: _setting(session, name))
    add("set_config", lambda name, value, *_: _set(session, name, value))
    add("version", lambda: VERSION)
    add("pg_backend_pid", lambda: 0)
    add("txid_current", lambda: 0)
    add("pg_client_encoding", lambda: "UTF8")
    add("pg_encoding_to_char", lambda _: "UTF8")
    add("format_type", _format_type)
    add("quote_ident", _quote_ident)
    add("pg_regclass", lambda value: _regclass(names, value))
    add("to_regclass", lambda value: _regclass_or_none(names, value))
    for name in ("pg_regtype", "to_regtype"):
        add(name, _regtype)
    add("pg_regex", _regex, 3)
    add("pg_element", _element_at, 2)
    add("pg_regproc", lambda value: None if value is None else str(value).rpartition(".")[2])
    add("pg_series", _series, 2)
    add(
        "pg_listed",
        lambda array: json.dumps([] if array is None else elements(str(array)[:_MOST_TEXT])),
    )
    add("array_upper", lambda array, _: _length(array))
    add("array_length", lambda array, _: _length(array))
    add("pg_in_array", lambda value, array: _in_array(value, array), 2)
    add("pg_array", lambda *values: _array(values))
    add("like", lambda pattern, text: _like(pattern, text, "\\"), 2)
    add("like", _like, 3)
    connection.create_aggregate("pg_array_agg", 1, _ArrayAgg)  # type: ignore[arg-type]


def _setting(session: Session, name: str) -> str:
    try:
        return session.get(str(name))
    except Exception:  # noqa: BLE001 - SQLite shows no error of a function
        return ""


def _set(session: Session, name: str, value: Any) -> str:
    # A SELECT changes nothing; whoever means to spend says SET.
    return str(value) if not str(name).startswith("qserver.") else session.get(str(name))


def _format_type(oid: Any, *_: Any) -> str | None:
    if oid is None:
        return None
    number = int(oid)
    arrays = {array: base for base, array in ARRAYS.items()}
    if number in arrays:
        return f"{SQL_NAMES[arrays[number]]}[]"
    return SQL_NAMES.get(number, "-" if number == 0 else "???")


def _quote_ident(name: Any) -> str | None:
    text = str(name)
    return text if re.fullmatch(r"[a-z_][a-z0-9_]*", text) else '"' + text.replace('"', '""') + '"'


def _regclass(names: Names, value: Any) -> int | str | None:
    """The number of the table of a name, and the name of one of a number."""
    if isinstance(value, int):
        tables = {names.oid(i): _quote_ident(t.name) for i, t in enumerate(names.tables)}
        system = {oid: name for name, oid in _SYSTEM_OIDS.items()}
        return tables.get(value) or system.get(value) or str(value)
    found = _regclass_or_none(names, value)
    if found is None and value is not None:
        raise NoTableError
    return found


def _regclass_or_none(names: Names, value: Any) -> int | None:
    if value is None:
        return None
    text = str(value)
    if text.isdecimal():
        return int(text)
    parts = re.findall(r'"((?:[^"]|"")*)"|([^".]+)', text)
    wanted = parts[-1][0].replace('""', '"') or parts[-1][1] if parts else ""
    for i, table in enumerate(names.tables):
        if wanted in (table.name, table.name.lower()) or wanted.lower() == table.name:
            return names.oid(i)
    return _SYSTEM_OIDS.get(wanted.lower())


def _regtype(value: Any) -> Any:
    if value is None or isinstance(value, int):
        return value if value is None else _format_type(value)
    text = str(value).lower().removeprefix("pg_catalog.").strip('"')
    wanted = _ALIASES.get(text, text)
    return next((oid for oid, name in SQL_NAMES.items() if name.strip('"') == wanted), None)


def _regex(text: Any, pattern: Any, flags: Any) -> int | None:
    """Whether a pattern matches; those of names alone, so that none takes long."""
    if text is None or pattern is None:
        return None
    plain = str(pattern)
    found = _NAME_PATTERN.fullmatch(plain)
    if found is None or plain.count("*") > _MOST_STARS:
        raise PatternError
    ignores = re.IGNORECASE if "i" in str(flags) else 0
    start, body, end = found.groups()
    parts = [re.escape(p).replace(r"\.\*", ".*").replace(r"\.", ".") for p in body.split("|")]
    made = "|".join(f"{start}(?:{part}){end}" for part in parts)
    return int(re.search(made, str(text), ignores) is not None)


def _in_array(value: Any, array: Any) -> int | None:
    if value is None or array is None:
        return None
    return int(str(value) in elements(str(array)[:_MOST_TEXT]))


def _series(first: Any, last: Any) -> str:
    if first is None or last is None:
        return "[]"
    return json.dumps(list(range(int(first), min(int(last), int(first) + _MOST_TEXT) + 1)))


def _length(array: Any) -> int | None:
    return (len(elements(str(array)[:_MOST_TEXT])) or None) if array is not None else None


def _element_at(array: Any, place: Any) -> str | None:
    found = [] if array is None or place is None else elements(str(array)[:_MOST_TEXT])
    return found[int(place)] if 0 <= int(place or 0) < len(found) else None


def _array(values: Any) -> str:
    return "{" + ",".join(_element(value) for value in values) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if re.fullmatch(r"[\w.-]+", text) and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _like(pattern: Any, text: Any, escape: Any) -> int | None:
    """LIKE as PostgreSQL has it, in time that grows with the product of both lengths."""
    if pattern is None or text is None:
        return None
    tokens = _like_tokens(str(pattern)[:_MOST_TEXT], str(escape))
    reached = {0}
    subject = str(text)[:_MOST_TEXT]
    for kind, letter in tokens:
        if kind == "%":
            reached = set(range(min(reached), len(subject) + 1)) if reached else reached
        else:
            fits = (i for i in reached if i < len(subject))
            reached = {i + 1 for i in fits if kind == "_" or subject[i] == letter}
    return int(len(subject) in reached)


def _like_tokens(pattern: str, escape: str) -> list[tuple[str, str]]:
    found, i = [], 0
    while i < len(pattern):
        letter = pattern[i]
        if letter == escape and i + 1 < len(pattern):
            i += 1
            found.append(("=", pattern[i]))
        else:
            found.append((letter, "") if letter in "%_" else ("=", letter))
        i += 1
    return found


class _ArrayAgg:
    """Gathers values to an array; none gives an empty one, as ARRAY(SELECT ...) does."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def step(self, value: Any) -> None:
        """Take one more."""
        self._values.append(value)

    def finalize(self) -> str:
        """The array."""
        return _array(self._values)
