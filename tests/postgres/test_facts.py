"""The constants of the catalogue are those of PostgreSQL, by its own tables."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from qserver.postgres.wire.values import ARRAY_OF, BY_OID, TYPES
from qserver.query.sql.tables.catalogue_relations import Names, Row, Table, facts, relation, rows_of
from tests.deployment import Deployment
from tests.postgres import facts as real
from tests.postgres.client import RawClient

NAMES = Names(
    "town",
    "ada",
    1,
    (
        Table("people", (("age", "int4"), ("sex", "text"))),
        Table("visits", (("day", "date"),)),
    ),
    (("qserver.spend", "off"),),
)


def _rows(name: str, schema: str = "pg_catalog") -> Sequence[Row]:
    """What DuckDB is told: the rows with all columns of the relation."""
    found = relation(schema, name)
    assert found is not None
    rows = rows_of(schema, name, NAMES)
    return [dict(zip(found.columns, found.values(row), strict=True)) for row in rows]


def _told(rows: Sequence[Row], columns: str) -> set[tuple[str, ...]]:
    return {tuple(str(row[name]) for name in columns.split()) for row in rows}


def test_what_is_of_postgresql_says_so_with_its_licence() -> None:
    """Its notice and its two paragraphs go with each copy; each file of data is spoken of."""
    text = (real.FILE.parent / "ATTRIBUTION.md").read_text(encoding="utf-8")
    own = {"ATTRIBUTION.md", "http-examples.json"}
    names = {path.name for path in real.FILE.parent.iterdir() if path.is_file()} - own
    assert [name for name in names if f"`{name}`" not in text] == []
    licence = text[text.index(f"`{real.FILE.name}`") :]
    for words in ("PostgreSQL Global Development Group", "without fee", "IN NO EVENT", "AS IS"):
        assert words in licence


def test_types_of_the_wire_are_those_of_postgresql() -> None:
    """Number, name, size, and the array of each, by the facts that were read from it."""
    told = {int(row["oid"]): row for row in facts()["types"]}
    assert told.keys() == BY_OID.keys()
    for oid, kind in BY_OID.items():
        assert (told[oid]["typname"], told[oid]["typlen"]) == (kind.name, kind.size)
    for kind in TYPES:
        assert int(told[kind.oid]["typarray"]) == ARRAY_OF[kind].oid
        assert int(told[ARRAY_OF[kind].oid]["typelem"]) == kind.oid == ARRAY_OF[kind].of


def test_names_and_numbers_are_found_as_postgresql_finds_them(client: RawClient) -> None:
    for text, expected in (
        ("format_type(1043, -1)", "character varying"),
        ("format_type(1007, NULL)", "integer[]"),
        ("format_type(0, -1)", "-"),
        ("format_type(9, -1)", "???"),
        ("'pg_class'::regclass::oid", "1259"),
        ("1259::regclass", "pg_class"),
        ("'pg_catalog.pg_class'::regclass::text", "pg_class"),
        ("to_regclass('public.\"people\"')", "16384"),
        ("'int8'::regtype::oid", "20"),
        ("to_regtype('bigint')", "20"),
        ("to_regtype('pg_catalog.int4')", "23"),
        ("to_regtype('box')", None),
        ("'public'::regnamespace::oid", "2200"),
        ("2200::regnamespace::text", "public"),
        ("quote_ident('a B')", '"a B"'),
    ):
        assert client.query(f"SELECT {text}").rows == [[expected]], text


def test_what_every_database_has_is_numbered_as_there() -> None:
    """The roles' first is 10, an encoding of 6 is UTF-8, and users' tables begin at 16384."""
    assert ("11", "pg_catalog", "10") in _told(_rows("pg_namespace"), "oid nspname nspowner")
    assert ("2200", "public", "10") in _told(_rows("pg_namespace"), "oid nspname nspowner")
    assert _told(_rows("pg_am"), "oid amname amhandler amtype") == {("2", "heap", "3", "t")}
    assert _told(_rows("pg_tablespace"), "oid spcname") == {("1663", "pg_default")}
    assert _told(_rows("pg_database"), "encoding dattablespace") == {("6", "1663")}
    own = [int(row["oid"]) for row in (*_rows("pg_class"), *_rows("pg_database"))]
    assert len(set(own)) == 3
    assert [row["oid"] for row in _rows("pg_class")] == [16384, 16386]


def test_tables_and_columns_are_described_as_postgresql_describes_them() -> None:
    """Columns count from 1, and -1 is for a size or a number of rows that nobody knows."""
    columns = "attrelid attname attnum atttypid attlen attbyval attalign attstorage atttypmod"
    assert _told(_rows("pg_attribute"), columns) == {
        ("16384", "age", "1", "23", "4", "True", "i", "p", "-1"),
        ("16384", "sex", "2", "25", "-1", "False", "i", "x", "-1"),
        ("16386", "day", "1", "1082", "4", "True", "i", "p", "-1"),
    }
    flags = "attnotnull attisdropped attgenerated attmissingval"
    assert _told(_rows("pg_attribute"), flags) == {("True", "False", "", "None")}
    of_tables = "relname relnamespace relam relkind relpersistence reltuples relnatts relhasindex"
    assert _told(_rows("pg_class"), of_tables) == {
        ("people", "2200", "2", "r", "p", "-1.0", "2", "False"),
        ("visits", "2200", "2", "r", "p", "-1.0", "1", "False"),
    }
    standard = _rows("columns", "information_schema")
    assert _told(standard, "table_name column_name ordinal_position data_type udt_name") == {
        ("people", "age", "1", "integer", "int4"),
        ("people", "sex", "2", "text", "text"),
        ("visits", "day", "1", "date", "date"),
    }


@pytest.mark.slow
def test_every_relation_of_the_catalogue_can_be_read(town: Deployment, client: RawClient) -> None:
    for schema, relations in facts()["relations"].items():
        for name, columns in relations.items():
            reply = client.query(f"SELECT * FROM {schema}.{name}")
            assert reply.columns == [word.split(":")[0] for word in columns.split()], name


@pytest.mark.slow
def test_a_real_server_has_the_same_facts() -> None:
    """So that what is kept is PostgreSQL's, and nobody's work of memory."""
    import adbc_driver_postgresql.dbapi as driver

    from tests.worker.sources.engines import postgres_server

    with (
        postgres_server() as server,
        driver.connect(server.uri) as connection,
        connection.cursor() as cursor,
    ):
        assert real.facts(cursor) == facts()
