"""What clients ask of PostgreSQL's catalogue, answered from public names in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qserver.postgres.catalogue import child
from qserver.postgres.wire.texts import statements
from tests.deployment import Deployment
from tests.postgres.client import RawClient, connected, message

_A_QUERY_OF_THE_CATALOGUE = [
    ("SELECT 1", [["1"]]),
    ("SELECT 'a' AS x, NULL, true, 1 < 2", [["a", None, "t", "t"]]),
    ("select current_schema(), current_database()", [["public", "qserver"]]),
    ("SELECT current_user, session_user", [["ada", "ada"]]),
    ("SELECT current_setting('server_version_num')::int >= 90000", [["t"]]),
    ("SELECT pg_catalog.pg_is_in_recovery(), pg_backend_pid() > 0", [["f", "t"]]),
    ("SELECT relname, relkind FROM pg_class", [["people", "r"]]),
    ("SELECT c.oid FROM pg_catalog.pg_class c WHERE oid = 'people'::regclass", [["16384"]]),
    ("SELECT 'people'::regclass::oid, to_regclass('nobody')", [["16384", None]]),
    (
        "SELECT current_role, user, current_catalog, 'people'::regclass",
        [["ada", "ada", "qserver", "people"]],
    ),
    ("SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.!~) 'x'", [["people"]]),
    ("SELECT oid::regclass::text FROM pg_class WHERE relkind = ANY('{r,v}')", [["people"]]),
    ("SELECT relname FROM pg_class WHERE relkind = ANY (ARRAY['r', 'p'])", [["people"]]),
    ("SELECT relname FROM pg_class WHERE relname <> ALL ('{people}'::text[])", []),
    ("SELECT 1 FROM pg_class WHERE relname !~ '^pg_' AND relname ~* '^(PEO.*)$'", [["1"]]),
    ("SELECT 1 FROM pg_class WHERE relname LIKE 'peo\\_le'", []),
    ("SELECT 1 FROM pg_class WHERE relname LIKE 'p_o%' AND relname ILIKE 'PEO%'", [["1"]]),
    ("SELECT ARRAY(SELECT rolname FROM pg_roles), E'a\\tb'", [["{ada}", "a\tb"]]),
    (
        "SELECT (current_schemas(true))[1], (current_schemas(true))[2]",
        [["pg_catalog", "public"]],
    ),
    ("SELECT s.r FROM generate_series(1, 3) AS s(r)", [["1"], ["2"], ["3"]]),
    ("SELECT x FROM unnest(ARRAY['a', 'b c']) AS x", [["a"], ["b c"]]),
    ("SELECT format_type(atttypid, atttypmod) FROM pg_attribute", [["bigint"], ["text"]]),
    ("SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'people')", [["t"]]),
    (
        "WITH a AS (SELECT relname AS table, true AS update FROM pg_class) SELECT a.* FROM a",
        [["people", "t"]],
    ),
    ("SELECT count(*) FROM pg_index", [["0"]]),
    (
        "SELECT i.indkey, d.deptype FROM pg_index i JOIN pg_depend d ON d.objid = i.indexrelid",
        [],
    ),
    (
        "SELECT c.relname, d.n_distinct, c.tableoid FROM pg_class c LEFT JOIN pg_stats d "
        "ON d.tablename = c.relname",
        [["people", None, None]],
    ),
    ("TABLE pg_am", [["2", "heap", "3", "t"]]),
    ("VALUES (1, 'a')", [["1", "a"]]),
    ("SELECT typname FROM pg_type WHERE typreceive != 0 AND typname = 'int4'", [["int4"]]),
    ("SELECT format('%I.%s', 'A b', relkind) FROM pg_class", [['"A b".r']]),
    (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) "
        "SELECT n FROM t",
        [["1"], ["2"], ["3"]],
    ),
    (
        "SELECT has_table_privilege('people', 'SELECT'), has_table_privilege('people', 'DELETE')",
        [["t", "f"]],
    ),
    ("SELECT pg_advisory_unlock_all()", [[""]]),
    (
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
        [["people"]],
    ),
    (
        "SELECT column_name, data_type, ordinal_position FROM information_schema.columns "
        "WHERE table_name = 'people' ORDER BY 3 DESC",
        [["sex", "text", "2"], ["age", "bigint", "1"]],
    ),
    (
        "SELECT string_agg(nspname, ',') FROM pg_namespace WHERE nspname = 'public'",
        [["public"]],
    ),
]


def test_a_query_of_the_catalogue(client: RawClient) -> None:
    for text, rows in _A_QUERY_OF_THE_CATALOGUE:
        assert client.query(text).rows == rows, text


def test_what_dbeaver_and_metabase_ask_is_answered(client: RawClient) -> None:
    texts = statements((Path(__file__).parent / "queries.sql").read_text(encoding="utf-8"))
    assert len(texts) > 20
    for one in texts:
        assert "E" not in client.query(one.text).letters, one.text


def test_names_are_those_that_postgresql_gives(client: RawClient) -> None:
    text = (
        'SELECT 1, version(), c.relname, c.OID AS Number, c.oid AS "Number", CASE WHEN true THEN 1 '
        "END, c.relname::text, pg_catalog.current_schema(), EXISTS (SELECT 1) FROM pg_class c"
    )
    reply = client.query(text)
    names = ["?column?", "version", "relname", "number", "Number", "case", "relname"]
    assert reply.columns == [*names, "current_schema", "exists"]
    assert client.query("SELECT * FROM pg_am").columns[:2] == ["oid", "amname"]
    reply = client.query("SELECT a.oid AS x, a.*, version() FROM pg_am a")
    assert reply.columns == ["x", "oid", "amname", "amhandler", "amtype", "version"]


_WHAT_IT_CANNOT_DO_IS_REFUSED = [
    ("SELECT * FROM nobody", "42P01"),
    ("SELECT * FROM pg_catalog.pg_nothing", "42P01"),
    ("SELECT 'nobody'::regclass", "42P01"),
    ("SELECT FROM WHERE", "42601"),
    ("SELECT nothing FROM pg_class", "0A000"),
    ("SELECT", "42601"),
    ("SELECT load_extension('/tmp/x')", "0A000"),
    ("SELECT zeroblob(1000000000)", "0A000"),
    ("SELECT hex(randomblob(1000000000))", "0A000"),
    ("SELECT readfile('/etc/passwd')", "0A000"),
    ("SELECT * FROM pragma_database_list", "42P01"),
    ("SELECT * FROM duckdb_settings()", "42P01"),
    ("SELECT * FROM read_csv('/etc/passwd')", "42P01"),
    ("SELECT * FROM '/etc/passwd'", "42P01"),
    ("SELECT getenv('HOME')", "0A000"),
    ("SELECT repeat('a', 1000000000)", "0A000"),
    ("SELECT pg_sleep(100)", "0A000"),
    ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "42601"),
    ("INSTALL httpfs", "42601"),
    ("SELECT 1; ATTACH '/tmp/x'", "42601"),
]


def test_what_it_cannot_do_is_refused(client: RawClient) -> None:
    for text, state in _WHAT_IT_CANNOT_DO_IS_REFUSED:
        assert client.query(text).error["C"] == state, text
        assert client.query("SELECT 1").rows == [["1"]]
    # Only the catalogue's own process waits for all others.
    threads = [int(name) for name in os.listdir("/proc/self/task")]
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_OTHER}


@pytest.mark.slow
def test_what_takes_too_much_is_ended_and_the_connection_goes_on(client: RawClient) -> None:
    """By time of the processor, by memory, and by the size of the result."""
    for text, state in (
        ("SELECT count(*) FROM " + ", ".join(f"pg_type t{i}" for i in range(9)), "57014"),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t",
            "54000",
        ),
        ("SELECT t0.oid FROM " + ", ".join(f"pg_type t{i}" for i in range(5)), "54000"),
        (
            "SELECT array_agg(t0.typname) FROM " + ", ".join(f"pg_type t{i}" for i in range(6)),
            "54000",
        ),
        ("SELECT x FROM generate_series(1, 1000000000) AS s(x)", "54000"),
    ):
        assert client.query(text).error["C"] == state, text
        assert client.query("SELECT 1").rows == [["1"]]


@pytest.mark.slow
def test_a_statement_ends_when_its_client_has_gone(town: Deployment) -> None:
    """The thread is through long before the statement, which takes all of its seconds, would be."""
    text = "SELECT count(*) FROM " + ", ".join(f"pg_type t{i}" for i in range(9))
    with connected(town.service()) as client:
        client.start()
        client.query("SELECT 1")
        client.send(message(b"Q", text.encode() + b"\0"))
        client.socket.close()
        client.thread.join(child.MOST_SECONDS / 2)
        assert not client.thread.is_alive()


def test_what_is_set_shows_and_a_select_sets_nothing(town: Deployment) -> None:
    with connected(town.service()) as client:
        client.start()
        text = "SELECT setting FROM pg_settings WHERE name = 'qserver.spend'"
        assert client.query(text).rows == [["off"]]
        client.query("SELECT set_config('qserver.spend', 'on', false)")
        assert client.query(text).rows == [["off"]]
        client.query("SET qserver.spend = on")
        assert client.query(text).rows == [["on"]]
