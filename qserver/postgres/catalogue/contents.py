"""The rows of the catalogue: each dataset a table, each attribute and level a column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from qserver.postgres.wire.values import (
    BOOL,
    CHAR,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NAME,
    NUMERIC,
    OID,
    TEXT,
    VARCHAR,
    Type,
)

Row = Mapping[str, Any]
OWNER: Final = 10
PG_CATALOG: Final = 11
PUBLIC: Final = 2200
INFORMATION_SCHEMA: Final = 13000
_DATABASE: Final = 16000
_FIRST_TABLE: Final = 16384
_STEP: Final = 2
SQL_NAMES: Final[Mapping[int, str]] = {
    BOOL.oid: "boolean",
    CHAR.oid: '"char"',
    NAME.oid: "name",
    INT8.oid: "bigint",
    INT2.oid: "smallint",
    INT4.oid: "integer",
    TEXT.oid: "text",
    OID.oid: "oid",
    FLOAT4.oid: "real",
    FLOAT8.oid: "double precision",
    VARCHAR.oid: "character varying",
    DATE.oid: "date",
    NUMERIC.oid: "numeric",
}
_CATEGORIES: Final[Mapping[int, str]] = {
    BOOL.oid: "B",
    CHAR.oid: "Z",
    NAME.oid: "S",
    TEXT.oid: "S",
    VARCHAR.oid: "S",
    DATE.oid: "D",
}
_BY_VALUE: Final = 8
"""Most bytes of a type that is passed by value."""
_ALIGNED: Final[Mapping[int, str]] = {1: "c", 2: "s", 8: "d", NAME.size: "c"}
"""By bytes; "i" for all others."""
_WITH_UNDERSCORE: Final = frozenset({DATE.oid, NUMERIC.oid})
"""Those whose functions are called `date_in` and the like."""
ARRAYS: Final[Mapping[int, int]] = {
    BOOL.oid: 1000,
    CHAR.oid: 1002,
    NAME.oid: 1003,
    INT2.oid: 1005,
    INT4.oid: 1007,
    TEXT.oid: 1009,
    VARCHAR.oid: 1015,
    INT8.oid: 1016,
    FLOAT4.oid: 1021,
    FLOAT8.oid: 1022,
    OID.oid: 1028,
    DATE.oid: 1182,
    NUMERIC.oid: 1231,
}
_LISTED: Final = (
    BOOL, CHAR, NAME, INT8, INT2, INT4, TEXT, OID, FLOAT4, FLOAT8, VARCHAR, DATE, NUMERIC
)  # fmt: skip

_WORDS: Final = ("assuming", "confidence", "consistent", "independent", "simultaneous", "within")
"""Those that SQL has here and nowhere else."""


@dataclass(frozen=True)
class Table:
    """A dataset as a table.

    Args:
        columns: names with their types.
    """

    name: str
    columns: tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class Names:
    """What a catalogue holds.

    Args:
        settings: names with their values.
    """

    database: str
    user: str
    tables: tuple[Table, ...]
    settings: tuple[tuple[str, str], ...]

    def oid(self, i_table: int) -> int:
        """The number of a table."""
        return _FIRST_TABLE + _STEP * i_table


def catalogue_rows(names: Names) -> Iterator[tuple[str, Sequence[Row]]]:
    """The rows of each table of pg_catalog that has any."""
    schemas = {PG_CATALOG: "pg_catalog", PUBLIC: "public", INFORMATION_SCHEMA: "information_schema"}
    yield (
        "pg_namespace",
        [{"oid": oid, "nspname": name, "nspowner": OWNER} for oid, name in schemas.items()],
    )
    yield "pg_class", [_class(names, i, table) for i, table in enumerate(names.tables)]
    yield (
        "pg_attribute",
        [
            _attribute(names.oid(i), k, name, kind)
            for i, table in enumerate(names.tables)
            for k, (name, kind) in enumerate(table.columns, start=1)
        ],
    )
    yield "pg_type", [row for kind in _LISTED for row in _types(kind)]
    yield "pg_am", [{"oid": 2, "amname": "heap", "amhandler": 3, "amtype": "t"}]
    yield "pg_tablespace", [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}]
    yield "pg_database", [_database(names.database)]
    yield "pg_roles", [_role(names.user)]
    yield "pg_user", [{"usename": names.user, "usesysid": OWNER, "usesuper": 0}]
    yield (
        "pg_settings",
        [
            {
                "name": name,
                "setting": value,
                "context": "user",
                "vartype": "string",
                "source": "default",
            }
            for name, value in names.settings
        ],
    )
    yield (
        "pg_get_keywords",
        [
            {"word": word, "catcode": "U", "barelabel": 1, "catdesc": "unreserved", "baredesc": ""}
            for word in _WORDS
        ],
    )
    yield (
        "pg_tables",
        [
            {
                "schemaname": "public",
                "tablename": table.name,
                "tableowner": names.user,
                "hasindexes": 0,
                "hasrules": 0,
                "hastriggers": 0,
                "rowsecurity": 0,
            }
            for table in names.tables
        ],
    )


def information_rows(names: Names) -> Iterator[tuple[str, Sequence[Row]]]:
    """The rows of each table of information_schema that has any."""
    yield "information_schema_catalog_name", [{"catalog_name": names.database}]
    yield (
        "schemata",
        [
            {"catalog_name": names.database, "schema_name": name, "schema_owner": names.user}
            for name in ("public", "pg_catalog", "information_schema")
        ],
    )
    yield (
        "tables",
        [
            {
                "table_catalog": names.database,
                "table_schema": "public",
                "table_name": table.name,
                "table_type": "BASE TABLE",
                "is_insertable_into": "NO",
                "is_typed": "NO",
            }
            for table in names.tables
        ],
    )
    yield (
        "columns",
        [
            {
                "table_catalog": names.database,
                "table_schema": "public",
                "table_name": table.name,
                "column_name": name,
                "ordinal_position": k,
                "is_nullable": "NO",
                "data_type": SQL_NAMES[kind.oid],
                "udt_catalog": names.database,
                "udt_schema": "pg_catalog",
                "udt_name": kind.name,
                "dtd_identifier": str(k),
                "is_self_referencing": "NO",
                "is_identity": "NO",
                "is_generated": "NEVER",
                "is_updatable": "NO",
            }
            for table in names.tables
            for k, (name, kind) in enumerate(table.columns, start=1)
        ],
    )


def _class(names: Names, i: int, table: Table) -> Row:
    flags = (
        "relhasindex relisshared relhasrules relhastriggers relhassubclass relrowsecurity "
        "relforcerowsecurity relispartition relhasoids relchecks reltoastrelid relpages "
        "relallvisible reltablespace reloftype relrewrite"
    )
    return {
        **dict.fromkeys(flags.split(), 0),
        "oid": names.oid(i),
        "relname": table.name,
        "relnamespace": PUBLIC,
        "reltype": names.oid(i) + 1,
        "relowner": OWNER,
        "relam": 2,
        "relfilenode": names.oid(i),
        # How many records there are is not known here, which is what -1 says.
        "reltuples": -1.0,
        "relpersistence": "p",
        "relkind": "r",
        "relnatts": len(table.columns),
        "relispopulated": 1,
        "relreplident": "n",
        "relacl": "{=r/" + "".join(c for c in names.user if c.isalnum() or c in "_-") + "}",
    }


def _attribute(table: int, number: int, name: str, kind: Type) -> Row:
    return {
        "attrelid": table,
        "attname": name,
        "atttypid": kind.oid,
        "attlen": kind.size,
        "attnum": number,
        "attcacheoff": -1,
        "atttypmod": -1,
        "attndims": 0,
        "attbyval": int(0 < kind.size <= _BY_VALUE),
        "attalign": _ALIGNED.get(kind.size, "i"),
        "attstorage": _storage(kind),
        "attcompression": "",
        # Every record has a label of every attribute, be it that for a missing value.
        "attnotnull": 1,
        "atthasdef": 0,
        "atthasmissing": 0,
        "attidentity": "",
        "attgenerated": "",
        "attisdropped": 0,
        "attislocal": 1,
        "attinhcount": 0,
        "attstattarget": -1,
        "attcollation": 0,
    }


def _storage(kind: Type) -> str:
    if kind.size > 0:
        return "p"
    return "m" if kind == NUMERIC else "x"


def _types(kind: Type) -> Iterator[Row]:
    flags = (
        "typispreferred typrelid typsubscript "
        "typsend typmodin typmodout typanalyze typnotnull typbasetype typndims typcollation"
    )
    plain = {
        **dict.fromkeys(flags.split(), 0),
        "oid": kind.oid,
        "typname": kind.name,
        "typnamespace": PG_CATALOG,
        "typowner": OWNER,
        "typlen": kind.size,
        "typbyval": int(0 < kind.size <= _BY_VALUE),
        "typtype": "b",
        "typcategory": _CATEGORIES.get(kind.oid, "N"),
        "typisdefined": 1,
        "typdelim": ",",
        "typarray": ARRAYS[kind.oid],
        "typelem": CHAR.oid if kind == NAME else 0,
        "typinput": kind.name + ("_in" if kind.oid in _WITH_UNDERSCORE else "in"),
        "typalign": _ALIGNED.get(kind.size, "i"),
        "typstorage": _storage(kind),
        "typtypmod": -1,
    }
    yield plain
    array = {
        "oid": ARRAYS[kind.oid],
        "typname": f"_{kind.name}",
        "typarray": 0,
        "typinput": "array_in",
        "typlen": -1,
        "typbyval": 0,
        "typcategory": "A",
        "typelem": kind.oid,
        "typalign": "d" if kind.size == INT8.size else "i",
        "typstorage": "x",
    }
    yield plain | array


def _database(name: str) -> Row:
    return {
        "oid": _DATABASE,
        "datname": name,
        "datdba": OWNER,
        "encoding": 6,
        "datlocprovider": "c",
        "datistemplate": 0,
        "datallowconn": 1,
        "datconnlimit": -1,
        "dattablespace": 1663,
        "datcollate": "C.UTF-8",
        "datctype": "C.UTF-8",
    }


def _role(user: str) -> Row:
    flags = "rolsuper rolcreaterole rolcreatedb rolreplication rolbypassrls"
    return {
        **dict.fromkeys(flags.split(), 0),
        "rolname": user,
        "rolinherit": 1,
        "rolcanlogin": 1,
        "rolconnlimit": -1,
        "rolpassword": "********",
        "oid": OWNER,
    }
