"""Public names by SQL: SHOW TABLES, DESCRIBE, information_schema, and groups without numbers."""

from __future__ import annotations

import pytest

from qserver.errors import SqlError
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.catalogue import catalogue_statement
from qserver.query.sql.text import dataset_of
from tests.query.sql.people import DOMAIN, read

COLUMNS = "FROM information_schema.columns"


def names(text: str) -> list[tuple[str | None, ...]]:
    found = catalogue_statement(text, DOMAIN, dataset="people")
    assert isinstance(found, Statement)
    assert found.columns == ()
    assert all(len(row.group) == len(found.groups) for row in found.rows)
    return [row.group for row in found.rows]


@pytest.mark.parametrize("text", ["SHOW TABLES", "show full tables;"])
def test_the_tables_are_the_dataset(text: str) -> None:
    assert names(text) == [("people",)]


@pytest.mark.parametrize(
    "text",
    [
        "DESCRIBE people",
        "desc people;",
        "SHOW COLUMNS FROM public.people",
        'DESCRIBE TABLE "people"',
    ],
)
def test_a_description_lists_the_attributes(text: str) -> None:
    assert names(text) == [
        ("age", "bigint", "8", "integer"),
        ("income", "bigint", "3", "integer"),
        ("height", "double precision", "3", "real"),
        ("region", "text", "4", "labels"),
        ("sex-at-birth", "text", "2", "labels"),
    ]
    assert dataset_of(text) == "people"


def test_information_schema_filters_orders_and_cuts() -> None:
    assert names("SELECT table_schema, table_name FROM information_schema.tables") == [
        ("public", "people")
    ]
    [whole] = names("SELECT * FROM information_schema.tables")
    assert whole[:4] == ("qserver", "public", "people", "BASE TABLE")
    assert names("SELECT character_set_name FROM information_schema.character_sets") == [("UTF8",)]
    joined = "information_schema.tables t JOIN information_schema.columns c USING (table_name)"
    real = f"SELECT t.table_type, c.column_name FROM {joined} WHERE c.udt_name = 'float8'"
    assert names(real) == [("BASE TABLE", "height")]
    assert names(
        f"SELECT column_name AS name {COLUMNS} WHERE table_schema = 'public' AND "
        "data_type IN ('text', 'bigint') AND NOT column_name = 'income' "
        "ORDER BY ordinal_position DESC LIMIT 2"
    ) == [("sex-at-birth",), ("region",)]
    assert names(f"SELECT column_name {COLUMNS} WHERE table_name = 'other'") == []
    assert names(f"SELECT UPPER(column_name) {COLUMNS} WHERE column_name LIKE 'a%'") == [("AGE",)]
    assert names(
        f"SELECT data_type, COUNT(*) AS n {COLUMNS} GROUP BY data_type ORDER BY n DESC, data_type"
    ) == [("bigint", "2"), ("text", "2"), ("double precision", "1")]
    text = f"SELECT column_name {COLUMNS} WHERE table_name = 'people'"
    assert dataset_of(text) == "people"
    assert len(names(text)) == 5


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("DESCRIBE other", "`people`"),
        ("SELECT a FROM information_schema.nothing", "read the tables that it is given"),
        (f"SELECT age {COLUMNS}", "age"),
        (f"SELECT column_name {COLUMNS} WHERE (", "one SELECT of names"),
        (f"SELECT getenv('HOME') {COLUMNS}", "functions on the list"),
        (f"SELECT * {COLUMNS}, information_schema.tables", "name its columns"),
        (f"SELECT 1 {COLUMNS}, people", "read the tables that it is given"),
    ],
)
def test_other_facts_are_refused(text: str, condition: str) -> None:
    with pytest.raises(SqlError, match=condition):
        catalogue_statement(text, DOMAIN, dataset="people")


def test_other_texts_are_no_catalogue() -> None:
    for text in ("SELECT COUNT(*) FROM people", "DESCRIBE people; DROP TABLE people", "SHOW"):
        assert catalogue_statement(text, DOMAIN, dataset="people") is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM people WHERE 1=0",
        "select * from public.people limit 0;",
        'SELECT t.* FROM "people" AS t WHERE (0 = 1)',
        "SELECT *\nFROM people p\nWHERE FALSE",
    ],
)
def test_columns_are_told_where_no_row_is_asked_for(text: str) -> None:
    found = catalogue_statement(text, DOMAIN, dataset="people")
    assert found is not None
    assert found.groups == ("age", "income", "height", "region", "sex-at-birth")
    assert (found.rows, found.columns) == ((), ())
    assert dataset_of(text) == "people"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM other LIMIT 0",
        "SELECT * FROM people LIMIT 1",
        "SELECT * FROM people WHERE 1 = 0 OR TRUE",
        "SELECT * FROM people WHERE 1 = 1",
        "SELECT COUNT(*) FROM people LIMIT 0",
    ],
)
def test_whatever_asks_for_rows_is_no_catalogue(text: str) -> None:
    assert catalogue_statement(text, DOMAIN, dataset="people") is None


def test_groups_without_numbers_are_those_of_the_domain() -> None:
    for text in ("SELECT DISTINCT region FROM people", "SELECT region FROM people GROUP BY 1"):
        found = read(f"{text} ORDER BY region DESC NULLS FIRST LIMIT 3")
        assert (found.groups, found.columns) == (("region",), ())
        assert [row.group[0] for row in found.rows] == [None, "East", "South"]
    pairs = read("SELECT DISTINCT region, age < 22 AS young FROM people WHERE region = 'East'")
    assert [row.group for row in pairs.rows] == [("East", "false"), ("East", "true")]
    with pytest.raises(SqlError, match="ask for one count or sum"):
        _ = read("SELECT DISTINCT region FROM people").only_query


def test_the_tables_of_no_dataset_are_listed_elsewhere() -> None:
    with pytest.raises(SqlError, match="`qserver dataset list`"):
        dataset_of("SHOW TABLES")
