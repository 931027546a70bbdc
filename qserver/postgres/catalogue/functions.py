"""PostgreSQL's functions of the catalogue as macros of DuckDB, over variables of the connection.

Macros are the same for all; the variables hold public names, their numbers and settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from qserver import __version__
from qserver.postgres.session import SERVER_VERSION
from qserver.postgres.wire.values import quoted
from qserver.query.sql.tables.catalogue_relations import SCHEMAS, Names, facts

VERSION: Final = f"PostgreSQL {SERVER_VERSION} (qserver {__version__})"
NOTHING: Final = "There is no relation or type"
"""How the error begins that a name of nothing raises."""
_ALWAYS: Final[Mapping[str, str]] = {
    "NULL::TEXT": "col_description inet_client_addr inet_server_addr obj_description "
    "pg_get_constraintdef pg_get_expr pg_get_function_arguments pg_get_function_result "
    "pg_get_function_identity_arguments pg_get_indexdef pg_get_partkeydef pg_get_ruledef "
    "pg_get_partition_constraintdef pg_get_serial_sequence pg_get_statisticsobjdef_columns "
    "pg_get_triggerdef pg_get_viewdef pg_tablespace_location shobj_description pg_size_pretty",
    "NULL::INTEGER": "inet_client_port inet_server_port",
    "NULL::UINTEGER": "pg_my_temp_schema pg_relation_filenode",
    "NULL::BIGINT": "pg_table_size pg_relation_size pg_total_relation_size pg_indexes_size "
    "pg_database_size",
    "NULL::TIMESTAMPTZ": "pg_postmaster_start_time",
    "''": "pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock_all pg_advisory_xact_lock "
    "pg_advisory_xact_lock_shared",
    "true": "pg_advisory_unlock pg_advisory_unlock_shared pg_has_role pg_try_advisory_lock "
    "pg_try_advisory_lock_shared pg_collation_is_visible pg_conversion_is_visible "
    "pg_function_is_visible pg_opclass_is_visible pg_operator_is_visible pg_opfamily_is_visible "
    "pg_statistics_obj_is_visible pg_table_is_visible pg_ts_config_is_visible "
    "pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible pg_type_is_visible",
    "false": "has_function_privilege has_sequence_privilege pg_is_in_recovery "
    "pg_is_other_temp_schema pg_relation_is_publishable pg_relation_is_updatable "
    "row_security_active",
    "'UTF8'": "getdatabaseencoding pg_client_encoding pg_encoding_to_char",
    "1": "array_lower",
    "0": "txid_current",
    "6": "pg_char_to_encoding",
    "{'x': NULL, 'n': NULL}": "_pg_expandarray",
    "getvariable('own').process": "pg_backend_pid",
    "getvariable('own').account": "pg_get_userbyid own_current_user own_session_user own_user "
    "own_current_role",
    "getvariable('own').place": "own_current_database own_current_catalog",
    "'public'": "own_current_schema",
    quoted(VERSION): "own_version",
}
"""What is the same whatever it is called with."""
_GRANTED: Final = (
    "NOT regexp_matches({}, '(?i)INSERT|UPDATE|DELETE|TRUNCATE|REFERENCES|TRIGGER|CREATE|TEMP')"
)
_ASKED: Final = (
    "has_any_column_privilege has_column_privilege has_database_privilege has_schema_privilege "
    "has_table_privilege"
)
_NAMED: Final = (
    "coalesce(try_cast(x AS UINTEGER), getvariable('{0}')[{1}], getvariable('{0}')[lower({1})])"
)
_BARE: Final = "replace(regexp_replace(x::VARCHAR, '^.*[.]', ''), '\"', '')"
_OTHERS: Final[Mapping[str, str]] = {
    "own_current_schemas(x)": "CASE WHEN x THEN ['pg_catalog', 'public'] ELSE ['public'] END",
    "current_setting(x, y := NULL)": "coalesce(getvariable('settings')[lower(x)], "
    "CASE WHEN y THEN NULL ELSE '' END)",
    # A SELECT changes nothing; SET turns spending on.
    "set_config(x, y, z := NULL)": "CASE WHEN lower(x) LIKE 'qserver.%' THEN current_setting(x) "
    "ELSE y END",
    "array_upper(x, y := NULL)": "nullif(len(x), 0)",
    "cardinality(x)": "nullif(len(x), 0)",
    "quote_ident(x)": "CASE WHEN regexp_full_match(x, '[a-z_][a-z0-9_]*') THEN x "
    "ELSE '\"' || replace(x, '\"', '\"\"') || '\"' END",
    "format_type(x, y := NULL)": "CASE WHEN x = 0 THEN '-' WHEN x IS NOT NULL "
    "THEN coalesce(getvariable('type_names')[x::UINTEGER], '???') END",
    "to_regclass(x)": _NAMED.format("relations", _BARE),
    "to_regtype(x)": _NAMED.format("types", _BARE),
    "to_regnamespace(x)": _NAMED.format("schemas", "x"),
    **{
        f"{kind}_of(x)": f"coalesce(to_{kind}(x), error('{NOTHING} `' || x || '`.'))"
        for kind in ("regclass", "regtype", "regnamespace")
    },
    "regclass_name(x)": "coalesce(getvariable('classes')[x::UINTEGER], x::VARCHAR)",
    "regtype_name(x)": "format_type(x)",
    "regnamespace_name(x)": "coalesce(getvariable('schema_names')[x::UINTEGER], x::VARCHAR)",
}
_ALIKE: Final = {"int": "integer", "decimal": "numeric"}
"""Names of types that have others."""


def macros() -> Iterator[str]:
    """The statements that make the functions."""
    for value, names in _ALWAYS.items():
        for name in names.split():
            yield _macro(name, [value] * 5)
    for name in _ASKED.split():
        yield _macro(name, ["true", *(_GRANTED.format(last) for last in "abc")])
    for called, value in _OTHERS.items():
        yield f"CREATE MACRO {called} AS {value}"


def _macro(name: str, values: Iterable[str]) -> str:
    """A function of no value, of one, of two, and so on."""
    forms = (f"({', '.join('abcd'[:n])}) AS {value}" for n, value in enumerate(values))
    return f"CREATE MACRO {name} {', '.join(forms)}"


FUNCTIONS: Final = frozenset(
    {name for names in _ALWAYS.values() for name in names.split()}
    | {called.partition("(")[0] for called in _OTHERS}
    | {*_ASKED.split()}
)
"""The names of the functions."""


def variables(names: Names) -> Iterator[str]:
    """The statements that say what a connection's functions read."""
    own = f"'place': {quoted(names.database)}, 'account': {quoted(names.user)}"
    yield f"SET VARIABLE own = {{{own}, 'process': {names.process}}}"
    tables, oids = names.numbered, facts()["oids"]
    classes = {oid: name for name, oid in oids.items()}
    classes |= {oid: _shown(table.name) for oid, table in tables}
    called = {int(oid): name for oid, name in facts()["type_names"].items()}
    types = {row["typname"]: int(row["oid"]) for row in facts()["types"]}
    types |= {name.strip('"'): oid for oid, name in called.items()}
    types |= {short: types[long] for short, long in _ALIKE.items()}
    yield _map("settings", dict(names.settings))
    yield _map("classes", classes)
    yield _map("type_names", called)
    yield _map("schema_names", SCHEMAS)
    small = {table.name.lower(): oid for oid, table in tables}
    yield _map("relations", oids | small | {table.name: oid for oid, table in tables})
    yield _map("types", types)
    yield _map("schemas", {name: oid for oid, name in SCHEMAS.items()})


def _map(name: str, values: Mapping[str, str] | Mapping[str, int] | Mapping[int, str]) -> str:
    pairs = ", ".join(f"{_value(k)}: {_value(value)}" for k, value in values.items())
    return f"SET VARIABLE {name} = MAP {{{pairs}}}"


def _value(value: str | int) -> str:
    return quoted(value) if isinstance(value, str) else f"{value}::UINTEGER"


def _shown(name: str) -> str:
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'
