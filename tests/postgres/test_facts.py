"""The constants of the catalogue are those of PostgreSQL, by its own tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import pytest

from qserver.postgres.catalogue.contents import (
    Names,
    Row,
    Table,
    catalogue_rows,
    information_rows,
)
from qserver.postgres.catalogue.functions import register
from qserver.postgres.session import Session
from qserver.postgres.wire.values import DATE, INT4, INT8, NAME, NUMERIC, TEXT, TYPES

NAMES = Names(
    "town",
    "ada",
    (Table("people", (("age", INT4), ("sex", TEXT))), Table("visits", (("day", DATE),))),
    (("qserver.spend", "off"),),
)
_COLUMNS = (
    "oid typname typlen typbyval typcategory typarray typelem typinput typalign typstorage "
    "typdelim typtype typtypmod typnamespace"
)
_TYPES = """\
16 bool 1 1 B 1000 0 boolin c p boolean
18 char 1 1 Z 1002 0 charin c p "char"
19 name 64 0 S 1003 18 namein c p name
20 int8 8 1 N 1016 0 int8in d p bigint
21 int2 2 1 N 1005 0 int2in s p smallint
23 int4 4 1 N 1007 0 int4in i p integer
25 text -1 0 S 1009 0 textin i x text
26 oid 4 1 N 1028 0 oidin i p oid
700 float4 4 1 N 1021 0 float4in i p real
701 float8 8 1 N 1022 0 float8in d p double precision
1043 varchar -1 0 S 1015 0 varcharin i x character varying
1082 date 4 1 D 1182 0 date_in i p date
1700 numeric -1 0 N 1231 0 numeric_in i m numeric
1000 _bool -1 0 A 0 16 array_in i x boolean[]
1002 _char -1 0 A 0 18 array_in i x "char"[]
1003 _name -1 0 A 0 19 array_in i x name[]
1005 _int2 -1 0 A 0 21 array_in i x smallint[]
1007 _int4 -1 0 A 0 23 array_in i x integer[]
1009 _text -1 0 A 0 25 array_in i x text[]
1015 _varchar -1 0 A 0 1043 array_in i x character varying[]
1016 _int8 -1 0 A 0 20 array_in d x bigint[]
1021 _float4 -1 0 A 0 700 array_in i x real[]
1022 _float8 -1 0 A 0 701 array_in d x double precision[]
1028 _oid -1 0 A 0 26 array_in i x oid[]
1182 _date -1 0 A 0 1082 array_in i x date[]
1231 _numeric -1 0 A 0 1700 array_in i x numeric[]
"""
"""pg_type of PostgreSQL 18, which `test_a_real_server_has_the_same_facts` reads again."""
_SYSTEM = """\
1213 pg_tablespace
1247 pg_type
1249 pg_attribute
1255 pg_proc
1259 pg_class
1260 pg_authid
1262 pg_database
2601 pg_am
2604 pg_attrdef
2606 pg_constraint
2610 pg_index
2615 pg_namespace
2618 pg_rewrite
2620 pg_trigger
3079 pg_extension
"""


def _facts(text: str, n: int) -> list[tuple[str, ...]]:
    return [tuple(line.split(" ", n)) for line in text.splitlines()]


def _told(rows: Sequence[Row], columns: str) -> set[tuple[str, ...]]:
    return {tuple(str(row[name]) for name in columns.split()) for row in rows}


@pytest.fixture
def catalogue() -> dict[str, Sequence[Row]]:
    return dict(catalogue_rows(NAMES))


@pytest.fixture
def functions() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    register(connection, NAMES, Session(NAMES.user, NAMES.database))
    return connection


def test_types_are_those_of_postgresql(catalogue: dict[str, Sequence[Row]]) -> None:
    expected = {(*fact[:10], ",", "b", "-1", "11") for fact in _facts(_TYPES, 10)}
    assert _told(catalogue["pg_type"], _COLUMNS) == expected
    assert len(expected) == 2 * len(TYPES)


def test_types_are_called_as_postgresql_calls_them(functions: sqlite3.Connection) -> None:
    for oid, *_, name in _facts(_TYPES, 10):
        [said] = functions.execute("SELECT format_type(?, -1)", [int(oid)]).fetchone()
        assert said == name
    [nothing, unknown] = functions.execute("SELECT format_type(0), format_type(9)").fetchone()
    assert (nothing, unknown) == ("-", "???")


def test_tables_of_the_system_have_the_numbers_of_postgresql(
    functions: sqlite3.Connection,
) -> None:
    for oid, name in _facts(_SYSTEM, 1):
        found = functions.execute("SELECT pg_regclass(?), pg_regclass(?)", [name, int(oid)])
        assert found.fetchone() == (int(oid), name)


def test_what_every_database_has_is_numbered_as_there(
    catalogue: dict[str, Sequence[Row]],
) -> None:
    """The roles' first is 10, an encoding of 6 is UTF-8, and users' tables begin at 16384."""
    assert ("11", "pg_catalog", "10") in _told(catalogue["pg_namespace"], "oid nspname nspowner")
    assert ("2200", "public", "10") in _told(catalogue["pg_namespace"], "oid nspname nspowner")
    assert _told(catalogue["pg_am"], "oid amname amhandler amtype") == {("2", "heap", "3", "t")}
    assert _told(catalogue["pg_tablespace"], "oid spcname") == {("1663", "pg_default")}
    assert _told(catalogue["pg_database"], "encoding dattablespace") == {("6", "1663")}
    own = [int(row["oid"]) for row in (*catalogue["pg_class"], *catalogue["pg_database"])]
    assert len(set(own)) == 3
    assert [row["oid"] for row in catalogue["pg_class"]] == [16384, 16386]


def test_tables_and_columns_are_described_as_postgresql_describes_them(
    catalogue: dict[str, Sequence[Row]],
) -> None:
    """Columns count from 1, and -1 is for a size or a number of rows that nobody knows."""
    columns = "attrelid attname attnum atttypid attlen attbyval attalign attstorage atttypmod"
    assert _told(catalogue["pg_attribute"], columns) == {
        ("16384", "age", "1", "23", "4", "1", "i", "p", "-1"),
        ("16384", "sex", "2", "25", "-1", "0", "i", "x", "-1"),
        ("16386", "day", "1", "1082", "4", "1", "i", "p", "-1"),
    }
    assert {row["attnotnull"] for row in catalogue["pg_attribute"]} == {1}
    assert {row["attisdropped"] for row in catalogue["pg_attribute"]} == {0}
    of_tables = "relname relnamespace relam relkind relpersistence reltuples relnatts"
    assert _told(catalogue["pg_class"], of_tables) == {
        ("people", "2200", "2", "r", "p", "-1.0", "2"),
        ("visits", "2200", "2", "r", "p", "-1.0", "1"),
    }
    standard = dict(information_rows(NAMES))["columns"]
    assert _told(standard, "table_name column_name ordinal_position data_type udt_name") == {
        ("people", "age", "1", "integer", "int4"),
        ("people", "sex", "2", "text", "text"),
        ("visits", "day", "1", "date", "date"),
    }


def test_a_name_of_a_type_is_found_by_all_its_names(functions: sqlite3.Connection) -> None:
    said = {
        "int8": INT8, "bigint": INT8, "int": INT4, "pg_catalog.int4": INT4, "decimal": NUMERIC,
        "name": NAME, "TEXT": TEXT,
    }  # fmt: skip
    for text, kind in said.items():
        assert functions.execute("SELECT to_regtype(?)", [text]).fetchone() == (kind.oid,)
    assert functions.execute("SELECT to_regtype('box')").fetchone() == (None,)


@pytest.mark.slow
def test_a_real_server_has_the_same_facts() -> None:
    """So that the facts above are PostgreSQL's, and no copy of the catalogue that they check."""
    import adbc_driver_postgresql.dbapi as driver

    from tests.worker.sources.engines import postgres_server

    with postgres_server() as server, driver.connect(server.uri) as connection:

        def lines(query: str) -> list[str]:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return [" ".join(map(str, row)) for row in cursor.fetchall()]

        oids = ", ".join(fact[0] for fact in _facts(_TYPES, 10))
        types = lines(
            "SELECT oid::text, typname::text, typlen, typbyval::int, typcategory::text, "
            "typarray::text, typelem::text, typinput::text, typalign::text, typstorage::text, "
            f"format_type(oid, NULL) FROM pg_type WHERE oid IN ({oids})"
        )
        assert sorted(types) == sorted(_TYPES.splitlines())
        names = ", ".join(f"'{name}'" for _, name in _facts(_SYSTEM, 1))
        system = lines(f"SELECT oid::text, relname::text FROM pg_class WHERE relname IN ({names})")
        assert sorted(system) == sorted(_SYSTEM.splitlines())
        assert lines("SELECT oid::text, nspowner::text FROM pg_namespace WHERE oid = 11") == [
            "11 10"
        ]
        assert lines("SELECT spcname::text FROM pg_tablespace WHERE oid = 1663") == ["pg_default"]
        assert lines("SELECT amname::text, amtype::text FROM pg_am WHERE oid = 2") == ["heap t"]
        assert lines("SELECT pg_encoding_to_char(6)::text") == ["UTF8"]
