"""What reaches past the tables that are given is refused by the list, and again by the engine."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from qserver.errors import CapacityError, EngineError
from qserver.query.sql.engine import run as engine
from qserver.query.sql.engine.run import Table, request, run

T = Table("t", ("a",), ("BIGINT",), ((1,), (2,)))

OUTSIDE = (
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM read_parquet('http://127.0.0.1/a.parquet')",
    "SELECT * FROM read_json('https://127.0.0.1/a.json')",
    "COPY (SELECT 1) TO '/tmp/written.csv'",
    "COPY t FROM '/etc/passwd'",
    "EXPORT DATABASE '/tmp/written'",
    "IMPORT DATABASE '/tmp/written'",
    "ATTACH '/tmp/written.db' AS w",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT getenv('HOME')",
    "SET enable_external_access = true",
    "SET memory_limit = '100GB'",
    "RESET lock_configuration",
    "PRAGMA enable_profiling",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT load_aws_credentials()",
    "CREATE SECRET s (TYPE S3)",
)
"""Refused by DuckDB's own settings, too."""
REFUSED = (
    *OUTSIDE,
    "PRAGMA version",
    "PRAGMA database_list",
    "SHOW TABLES",
    "DESCRIBE t",
    "CALL pragma_version()",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "VACUUM",
    "DROP TABLE t",
    "CREATE TABLE u (a INT)",
    "INSERT INTO t VALUES (1)",
    "DELETE FROM t",
    "UPDATE t SET a = 2",
    "BEGIN TRANSACTION",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "SELECT 1; SELECT 2",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pragma_database_list",
    "SELECT (WITH sqlite_master AS (SELECT 1) SELECT 1), (SELECT COUNT(*) FROM sqlite_master)",
    "SELECT current_setting('memory_limit')",
    "SELECT current_user",
    "SELECT current_database()",
    "SELECT current_query()",
    "SELECT version()",
    "SELECT pg_typeof(1)",
    "SELECT getvariable('a')",
    "SELECT nextval('s')",
    "SELECT random()",
    "SELECT setseed(0.5)",
    "SELECT gen_random_uuid()",
    "SELECT uuid()",
    "SELECT now()",
    "SELECT current_date",
    "SELECT current_timestamp",
    "SELECT today()",
    "SELECT get_current_timestamp()",
    "SELECT txid_current()",
    "SELECT repeat('x', 2000000000)",
    "SELECT printf('%2000000000d', 1)",
    "SELECT format('{:>2000000000}', 'x')",
    "SELECT lpad('x', 2000000000, 'y')",
    "SELECT rpad('x', a * 1000000000, 'y') FROM t",
    "SELECT bar(1, 0, 1, 2000000000)",
    "SELECT * FROM generate_series(1000000000)",
    "SELECT * FROM range(1000000000)",
    "SELECT unnest(range(1000000000))",
    "SELECT range(1000000000)",
    "SELECT list_resize([1], 2000000000)",
    "SELECT array_agg(a) FROM t",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
    "SELECT * FROM t TABLESAMPLE 10%",
    "SELECT a INTO u FROM t",
    "SELECT * FROM t FOR UPDATE",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('t')",
    "SELECT COLUMNS(*) FROM t",
    "SELECT list_transform([1], x -> x)",
    "SELECT 'x'::BLOB",
    "SELECT '{}'::JSON",
    "SELECT CAST('a' AS u)",
    "SELECT $1",
    "SELECT ?",
    "SELECT hash(1)",
    "SELECT parse_path('a')",
    "SELECT error('x')",
    "SELECT json_serialize_sql('SELECT 1')",
    "SELECT * FROM json_execute_serialized_sql('{}')",
    "SELECT getenv(chr(72))",
    "SELECT a.b.c.d.e FROM t",
    "PIVOT t ON a USING sum(a)",
    "SUMMARIZE t",
)


def refuses(tree: exp.Expr) -> bool:
    try:
        run(tree, (T,))
    except (EngineError, CapacityError):
        return True
    return False


@pytest.mark.parametrize("sql", REFUSED)
def test_a_hostile_statement_is_refused(sql: str) -> None:
    """By the parser, or by the list, or by DuckDB."""
    try:
        tree = parse_one(sql, read="duckdb")
    except SqlglotError:
        return
    assert refuses(tree)


@pytest.mark.parametrize("sql", OUTSIDE)
def test_the_engine_itself_opens_nothing(sql: str) -> None:
    """Without the list: it has neither files nor network, and its settings stay."""
    assert "refused" in json.loads(engine._engine.reply(request(sql, (T,))))


def test_the_engine_itself_runs_one_select() -> None:
    for sql in ("SELECT 1; SELECT 2", "CHECKPOINT", "DROP TABLE t", ""):
        assert "not one SELECT" in engine._engine.reply(request(sql, (T,))).decode()


@settings(max_examples=60)
@given(st.data())
def test_an_attack_inside_another_statement_is_refused(data: st.DataObject) -> None:
    """Wherever it stands: as an item, in a subquery, in a condition, in a CTE."""
    attack = data.draw(st.sampled_from([s for s in REFUSED if s.startswith("SELECT ")]))
    around = data.draw(
        st.sampled_from(
            [
                "SELECT ({}) FROM t",
                "SELECT a FROM t WHERE a IN ({})",
                "WITH u AS ({}) SELECT * FROM u",
                "SELECT * FROM ({}) AS u",
                "SELECT 1 UNION ALL {}",
                "SELECT CASE WHEN EXISTS ({}) THEN 1 END",
                "SELECT * FROM t JOIN ({}) AS u ON TRUE",
                "SELECT SUM(a) OVER (ORDER BY ({})) FROM t",
            ]
        )
    )
    sql = around.format(attack)
    try:
        tree = parse_one(sql, read="duckdb")
    except SqlglotError:
        return
    assert refuses(tree), sql


@pytest.mark.parametrize(
    "node",
    [
        exp.Literal.number("1) FROM read_csv('/etc/passwd'"),
        exp.Literal.number(""),
        exp.Var(this="1; DROP TABLE t"),
        exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="DAY) --")),
        exp.Anonymous(this="STRFTIME(1) || getenv", expressions=[]),
        exp.Column(this=exp.Identifier(this='a" FROM duckdb_tables() --')),
        exp.Extract(this=exp.Var(this="year FROM x) --"), expression=exp.column("a")),
        exp.Window(this=exp.Count(this=exp.Star()), spec=exp.WindowSpec(kind="ROWS) --")),
    ],
)
def test_a_tree_that_is_made_by_hand_writes_no_sql_of_its_own(node: exp.Expr) -> None:
    with pytest.raises((EngineError, CapacityError)):
        run(exp.select(node).from_("t"), (T,))


def test_literals_and_nesting_are_bounded() -> None:
    with pytest.raises(CapacityError, match="4,096 characters"):
        run(exp.select(exp.Literal.string("x" * 4097)), ())
    deep: exp.Expr = exp.column("a")
    for _ in range(300):
        deep = exp.Neg(this=exp.Paren(this=deep))
    with pytest.raises(CapacityError, match="nested too deep"):
        run(exp.select(deep).from_("t"), (T,))
    wide = exp.In(this=exp.column("a"), expressions=[exp.Literal.number(1)] * (1 << 17))
    with pytest.raises(CapacityError, match="too long"):
        run(exp.select(wide).from_("t"), (T,))


@pytest.mark.slow
def test_a_text_grows_no_further_than_memory_allows() -> None:
    """Each REPLACE doubles it: the process is bounded, not this one's."""
    grown: exp.Expr = exp.Literal.string("x")
    for _ in range(40):
        grown = exp.Replace(
            this=grown, expression=exp.Literal.string("x"), replacement=exp.Literal.string("xx")
        )
    with pytest.raises((CapacityError, EngineError)):
        run(exp.select(grown), ())
    assert run(exp.select(exp.Literal.number(1)), ()) == [(1,)]
