"""The relations of the catalogue and their rows: each dataset a table, each attribute a column.

Relations, types and numbers are those of PostgreSQL 16, read from a real server once. Unset values
are NULL, or the type's empty value where PostgreSQL has no NULL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from qserver.query.domain import Domain

Row = Mapping[str, Any]
OWNER: Final = 10
PG_CATALOG: Final = 11
PUBLIC: Final = 2200
INFORMATION_SCHEMA: Final = 13000
_DATABASE: Final = 16000
_FIRST_TABLE: Final = 16384
_STEP: Final = 2
SCHEMAS: Final = {
    PG_CATALOG: "pg_catalog", PUBLIC: "public", INFORMATION_SCHEMA: "information_schema"
}  # fmt: skip
_WORDS: Final = ("assuming", "confidence", "consistent", "independent", "simultaneous", "within")
"""Those that SQL has here and nowhere else."""
_NOTHING: Final = {"bool": False, "text": "", "name": "", "char": "", "varchar": ""}


DUCKDB: Final[Mapping[str, str]] = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "oid": "UINTEGER",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "numeric": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    **dict.fromkeys(("text", "name", "char", "varchar"), "VARCHAR"),
    "_text": "VARCHAR[]",
    "_int2": "SMALLINT[]",
    "_oid": "UINTEGER[]",
}
"""Types of PostgreSQL as DuckDB calls them."""
_KINDS: Final = {"integer": "int8", "real": "float8", "date": "date", "period": "date"}


def columns_of_domain(domain: Domain) -> tuple[tuple[str, str], ...]:
    """The columns of a dataset as a table: its attributes and levels, with the names of types."""
    named = [(a.name, _KINDS.get(a.kind, "text")) for a in domain.attributes]
    return (*named, *((name, "text") for name in domain.level_names))


@dataclass(frozen=True)
class Table:
    """A dataset as a table.

    Args:
        columns: names with the names of their types.
        ends: names of further columns: the ends of the intervals of numbers.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    ends: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, domain: Domain, ends: tuple[str, ...] = ()) -> Table:
        """A dataset by its name and its attributes, and the levels of these."""
        return cls(name, columns_of_domain(domain), ends)

    @property
    def numbered(self) -> list[tuple[int, str, str]]:
        """All columns with their numbers and types."""
        found = [*self.columns, *((name, "float8") for name in self.ends)]
        return [(k, *column) for k, column in enumerate(found, start=1)]

    @property
    def described(self) -> list[tuple[str, str]]:
        """All columns with their types as SQL calls them."""
        return [(name, type_names()[kind]) for _, name, kind in self.numbered]


@dataclass(frozen=True)
class Names:
    """The content of a catalogue; `settings`: names with their values."""

    database: str
    user: str
    process: int
    tables: tuple[Table, ...]
    settings: tuple[tuple[str, str], ...]

    @classmethod
    def from_json(cls, text: str) -> Names:
        """Restore from the JSON of the fields."""
        found = json.loads(text)
        tables = (
            Table(t["name"], tuple(map(tuple, t["columns"])), tuple(t["ends"]))
            for t in found.pop("tables")
        )
        settings = tuple(map(tuple, found.pop("settings")))
        return cls(**found, tables=tuple(tables), settings=settings)

    def oid(self, i_table: int) -> int:
        """The number of a table."""
        return _FIRST_TABLE + _STEP * i_table

    @property
    def numbered(self) -> list[tuple[int, Table]]:
        """The tables with their numbers."""
        return [(self.oid(i), table) for i, table in enumerate(self.tables)]


@dataclass(frozen=True)
class Relation:
    """A table or view of the catalogue.

    Args:
        columns: names with the names of their types.
        filled: columns that are never NULL.
    """

    schema: str
    name: str
    columns: Mapping[str, str]
    filled: frozenset[str]

    def values(self, row: Row) -> tuple[Any, ...]:
        """The values of a row, in the order of the columns."""
        return tuple(
            row.get(name, _NOTHING.get(kind, 0) if name in self.filled else None)
            for name, kind in self.columns.items()
        )


@cache
def facts() -> Mapping[str, Any]:
    """Facts read from PostgreSQL."""
    text = (files("qserver") / "data" / "postgres-16.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


@cache
def type_names() -> Mapping[str, str]:
    """The names of types in SQL, by their own."""
    return {row["typname"]: facts()["type_names"][row["oid"]] for row in facts()["types"]}


@cache
def relation(schema: str, name: str) -> Relation | None:
    """A relation by its name; None for no such relation."""
    words = facts()["relations"][schema].get(name) or _FUNCTIONS.get(name)
    if words is None:
        return None
    pairs = (word.rstrip("!").split(":") for word in words.split())
    filled = [word.split(":")[0] for word in words.split() if word.endswith("!")]
    return Relation(schema, name, dict(pairs), frozenset(filled))


@cache
def column_types() -> Mapping[str, str]:
    """The type of a column by its name, which has one type in all relations."""
    names = [(schema, name) for schema, found in facts()["relations"].items() for name in found]
    return {
        column: kind
        for schema, name in names
        if (found := relation(schema, name)) is not None
        for column, kind in found.columns.items()
    }


_FUNCTIONS: Final = {
    "pg_get_keywords": "word:text catcode:char barelabel:bool catdesc:text baredesc:text"
}
"""Functions that give tables."""


def rows_of(schema: str, name: str, names: Names) -> Iterable[Row]:
    """The rows of a relation; most have none."""
    make = _ROWS.get(f"{schema}.{name}")
    return () if make is None else make(names)


def _classes(names: Names) -> Iterable[Row]:
    for oid, table in names.numbered:
        yield {
            "oid": oid,
            "relname": table.name,
            "relnamespace": PUBLIC,
            "reltype": oid + 1,
            "relowner": OWNER,
            "relam": 2,
            "relfilenode": oid,
            # How many records there are is not known here, which is what -1 says.
            "reltuples": -1.0,
            "relpersistence": "p",
            "relkind": "r",
            "relnatts": len(table.numbered),
            "relispopulated": True,
            "relreplident": "n",
            "relacl": ["=r/" + "".join(c for c in names.user if c.isalnum() or c in "_-")],
        }


def _attributes(names: Names) -> Iterable[Row]:
    types = {row["typname"]: row for row in facts()["types"]}
    for oid, table in names.numbered:
        for k, name, kind in table.numbered:
            yield {
                "attrelid": oid,
                "attname": name,
                "atttypid": types[kind]["oid"],
                "attlen": types[kind]["typlen"],
                "attnum": k,
                "attcacheoff": -1,
                "atttypmod": -1,
                "attbyval": types[kind]["typbyval"],
                "attalign": types[kind]["typalign"],
                "attstorage": types[kind]["typstorage"],
                # Every record has a label of every attribute, be it that for a missing value.
                "attnotnull": name not in table.ends,
                "attislocal": True,
                "attstattarget": -1,
            }


def _columns(names: Names) -> Iterable[Row]:
    types = type_names()
    for table in names.tables:
        for k, name, kind in table.numbered:
            yield {
                **_table_of(names, table),
                "column_name": name,
                "ordinal_position": k,
                "is_nullable": "YES" if name in table.ends else "NO",
                "data_type": types[kind],
                "udt_catalog": names.database,
                "udt_schema": "pg_catalog",
                "udt_name": kind,
                "dtd_identifier": str(k),
                "is_self_referencing": "NO",
                "is_identity": "NO",
                "is_generated": "NEVER",
                "is_updatable": "NO",
            }


def _table_of(names: Names, table: Table) -> dict[str, Any]:
    return {
        "table_catalog": names.database, "table_schema": "public", "table_name": table.name
    }  # fmt: skip


def _database(names: Names) -> Sequence[Row]:
    found = {"oid": _DATABASE, "datname": names.database, "datdba": OWNER, "encoding": 6}
    found |= {"datlocprovider": "c", "datallowconn": True, "datconnlimit": -1}
    found |= {"dattablespace": 1663, "datcollate": "C.UTF-8", "datctype": "C.UTF-8"}
    return [found]


def _role(names: Names) -> Sequence[Row]:
    found = {"rolname": names.user, "oid": OWNER, "rolinherit": True, "rolcanlogin": True}
    flags = "rolsuper rolcreaterole rolcreatedb rolreplication rolbypassrls"
    none = dict.fromkeys(flags.split(), False)
    return [found | none | {"rolconnlimit": -1, "rolpassword": "********"}]


_ROWS: Final[Mapping[str, Callable[[Names], Iterable[Row]]]] = {
    "pg_catalog.pg_namespace": lambda _: [
        {"oid": oid, "nspname": name, "nspowner": OWNER} for oid, name in SCHEMAS.items()
    ],
    "pg_catalog.pg_class": _classes,
    "pg_catalog.pg_attribute": _attributes,
    "pg_catalog.pg_type": lambda _: facts()["types"],
    "pg_catalog.pg_am": lambda _: [{"oid": 2, "amname": "heap", "amhandler": 3, "amtype": "t"}],
    "pg_catalog.pg_tablespace": lambda _: [
        {"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}
    ],
    "pg_catalog.pg_database": _database,
    "pg_catalog.pg_roles": _role,
    "pg_catalog.pg_user": lambda names: [
        {"usename": names.user, "usesysid": OWNER, "usesuper": False}
    ],
    "pg_catalog.pg_settings": lambda names: [
        {"name": k, "setting": v, "context": "user", "vartype": "string", "source": "default"}
        for k, v in names.settings
    ],
    "pg_catalog.pg_get_keywords": lambda _: [
        {"word": text, "catcode": "U", "barelabel": True, "catdesc": "unreserved", "baredesc": ""}
        for text in _WORDS
    ],
    "pg_catalog.pg_tables": lambda names: [
        {"schemaname": "public", "tablename": table.name, "tableowner": names.user}
        | dict.fromkeys(("hasindexes", "hasrules", "hastriggers", "rowsecurity"), False)
        for table in names.tables
    ],
    "information_schema.information_schema_catalog_name": lambda names: [
        {"catalog_name": names.database}
    ],
    "information_schema.character_sets": lambda names: [
        {"character_set_name": "UTF8", "character_repertoire": "UCS", "form_of_use": "UTF8"}
        | {"default_collate_catalog": names.database, "default_collate_name": "C.UTF-8"}
    ],
    "information_schema.schemata": lambda names: [
        {"catalog_name": names.database, "schema_name": name, "schema_owner": names.user}
        for name in SCHEMAS.values()
    ],
    "information_schema.tables": lambda names: [
        {
            **_table_of(names, table),
            "table_type": "BASE TABLE",
            "is_insertable_into": "NO",
            "is_typed": "NO",
        }
        for table in names.tables
    ],
    "information_schema.columns": _columns,
}
