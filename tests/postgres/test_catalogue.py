"""What clients ask of PostgreSQL's catalogue, answered from public names in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.postgres.catalogue import engine
from qserver.postgres.wire.texts import statements
from tests.deployment import Deployment
from tests.postgres.client import RawClient, connected

_A_QUERY_OF_THE_CATALOGUE = [
    ("SELECT 1", [["1"]]),
    ("SELECT 'a' AS x, NULL, true, 1 < 2", [["a", None, "t", "t"]]),
    ("select current_schema(), current_database()", [["public", "qserver"]]),
    ("SELECT current_user, session_user", [["ada", "ada"]]),
    ("SELECT current_setting('server_version_num')::int >= 90000", [["t"]]),
    ("SELECT pg_catalog.pg_is_in_recovery(), pg_backend_pid()", [["f", "0"]]),
    ("SELECT relname, relkind FROM pg_class", [["people", "r"]]),
    ("SELECT c.oid FROM pg_catalog.pg_class c WHERE oid = 'people'::regclass", [["16384"]]),
    ("SELECT 'people'::regclass::oid, to_regclass('nobody')", [["16384", None]]),
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
    ("SELECT format_type(atttypid, atttypmod) FROM pg_attribute", [["integer"], ["text"]]),
    ("SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'people')", [["t"]]),
    (
        "WITH a AS (SELECT relname AS table, true AS update FROM pg_class) SELECT a.* FROM a",
        [["people", "t"]],
    ),
    ("SELECT count(*) FROM pg_index", [["0"]]),
    (
        "SELECT i.anything, d.other FROM pg_index i JOIN pg_depend d ON d.objid = i.indexrelid",
        [],
    ),
    (
        "SELECT c.relname, d.never_heard_of FROM pg_class c LEFT JOIN pg_stats d ON d.x = c.oid",
        [["people", None]],
    ),
    (
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
        [["people"]],
    ),
    (
        "SELECT column_name, data_type, ordinal_position FROM information_schema.columns "
        "WHERE table_name = 'people' ORDER BY 3 DESC",
        [["sex", "text", "2"], ["age", "integer", "1"]],
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
    ("SELECT * FROM pragma_database_list", "0A000"),
    (
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t",
        "0A000",
    ),
    ("SELECT 1 FROM pg_class WHERE relname ~ '^((a+)+)+$'", "42P01"),
    ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "42601"),
    ("VALUES (1)", "42601"),
]


def test_what_it_cannot_do_is_refused(client: RawClient) -> None:
    for text, state in _WHAT_IT_CANNOT_DO_IS_REFUSED:
        assert client.query(text).error["C"] == state, text
        assert client.query("SELECT 1").rows == [["1"]]


def test_a_query_that_takes_too_long_is_ended(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_MOST_S", 0.0)
    joined = ", ".join(f"pg_type t{i}" for i in range(8))
    assert client.query(f"SELECT count(*) FROM {joined}").error["C"] == "57014"
    assert client.query("SELECT 1").rows == [["1"]]


def test_more_rows_than_anybody_lists_are_refused(client: RawClient) -> None:
    joined = ", ".join(f"pg_type t{i}" for i in range(5))
    assert client.query(f"SELECT t0.oid FROM {joined}").error["C"] == "54000"


def test_what_is_set_shows_and_a_select_sets_nothing(town: Deployment) -> None:
    with connected(town.service()) as client:
        client.start()
        text = "SELECT setting FROM pg_settings WHERE name = 'qserver.spend'"
        assert client.query(text).rows == [["off"]]
        client.query("SELECT set_config('qserver.spend', 'on', false)")
        assert client.query(text).rows == [["off"]]
        client.query("SET qserver.spend = on")
        assert client.query(text).rows == [["on"]]
