"""Reading in other ways: COPY, cursors, prepared statements as SQL, and what portals may hold."""

from __future__ import annotations

import csv
import io
import struct

import pytest

from qserver.postgres.catalogue.child import MOST_BYTES
from tests.deployment import Deployment
from tests.postgres.client import RawClient, message
from tests.postgres.test_extended import bind, describe, execute, parse, sent
from tests.service.test_statements import answered, spent

BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


@pytest.fixture
def known(town: Deployment) -> Deployment:
    """A town in which history answers."""
    answered(town, f"{BY_SEX} WITHIN 20")
    return town


def copied(client: RawClient, text: str) -> bytes:
    reply = client.query(text)
    assert reply.letters.strip("N").startswith("Hd")
    assert reply.letters.endswith("dcCZ")
    assert reply.tags[0].startswith("COPY ")
    return b"".join(reply.of(b"d"))


def test_rows_are_copied_out_as_text_csv_and_binary(known: Deployment, client: RawClient) -> None:
    rows = client.query(BY_SEX).rows
    before = spent(known)
    lines = copied(client, f"COPY ({BY_SEX}) TO STDOUT").decode().split("\n")
    assert [line.split("\t") for line in lines[:-1]] == [
        ["\\N" if v is None else v for v in r] for r in rows
    ]
    text = copied(client, f"COPY ({BY_SEX}) TO STDOUT WITH (FORMAT csv, HEADER, NULL 'none')")
    names, *read = csv.reader(io.StringIO(text.decode()))
    assert names == ["sex", "n", "n_low", "n_high"]
    assert read == [["none" if v is None else v for v in r] for r in rows]
    binary = copied(client, f"COPY ({BY_SEX}) TO STDOUT (FORMAT binary)")
    assert binary.startswith(b"PGCOPY\n\xff\r\n\0")
    assert binary.endswith(b"\xff\xff")
    n, size = struct.unpack("!hi", binary[19:25])
    assert (n, binary[25 : 25 + size]) == (4, (rows[0][0] or "").encode())
    assert spent(known) == before


def test_what_csv_could_misread_is_quoted(client: RawClient) -> None:
    text = "COPY (SELECT 'a,\"b', '', NULL, E'c\\nd') TO STDOUT CSV"
    assert copied(client, text) == b'"a,""b","",,"c\nd"\n'
    text = "COPY (SELECT E'a\\tb\\\\', NULL, 'x') TO STDOUT"
    assert copied(client, text) == b"a\\tb\\\\\t\\N\tx\n"
    assert copied(client, "COPY pg_am TO STDOUT") == b"2\theap\t3\tt\n"
    reply = client.query("COPY (SELECT 1 WHERE false) TO STDOUT (FORMAT binary)")
    assert (reply.letters, reply.tags) == ("HdcCZ", ["COPY 0"])


def test_a_copy_is_prepared_and_costs_what_its_select_does(
    town: Deployment, client: RawClient
) -> None:
    text = "COPY (SELECT COUNT(*) AS n FROM people WHERE age < $1) TO STDOUT"
    reply = sent(client, parse(text), bind(b"25"), describe(), execute())
    assert reply.letters == "12nEZ"
    assert reply.error["C"] == "55000"
    assert spent(town) == 0
    reply = sent(client, parse("COPY (SELECT 7) TO STDOUT"), bind(), describe(), execute())
    assert (reply.letters, reply.of(b"d")) == ("12nHdcCZ", [b"7\n"])


def test_a_cursor_gives_rows_in_parts_of_one_answer(known: Deployment, client: RawClient) -> None:
    rows = client.query(BY_SEX).rows
    assert client.query(f"DECLARE c CURSOR FOR {BY_SEX}").error["C"] == "25P01"
    client.query("BEGIN")
    assert client.query(f'DECLARE "c" NO SCROLL CURSOR FOR {BY_SEX}').tags == ["DECLARE CURSOR"]
    first, rest = client.query("FETCH c"), client.query("FETCH FORWARD ALL FROM c")
    assert (first.rows, rest.rows) == (rows[:1], rows[1:])
    assert (first.tags, rest.tags) == (["FETCH 1"], ["FETCH 2"])
    assert first.columns == ["sex", "n", "n_low", "n_high"]
    assert client.query("FETCH 5 FROM c").rows == []
    assert client.query("CLOSE c").tags == ["CLOSE CURSOR"]
    assert client.query("FETCH c").error["C"] == "34000"
    client.query("ROLLBACK")
    client.query(f"BEGIN; DECLARE c CURSOR WITH HOLD FOR {BY_SEX}; COMMIT")
    assert client.query("MOVE 2 IN c; FETCH BACKWARD 1 FROM c").error["C"] == "0A000"
    assert client.query("FETCH ALL FROM c").rows == rows[2:]
    assert client.query("CLOSE ALL").tags == ["CLOSE CURSOR"]


def test_a_cursor_is_a_portal_with_values(known: Deployment, client: RawClient) -> None:
    client.query("BEGIN")
    text = "DECLARE c CURSOR FOR SELECT COUNT(*) AS n FROM people WHERE sex = $1"
    assert sent(client, parse(text), bind(b"Female"), execute()).letters == "12CZ"
    assert sent(client, describe(b"P", "c")).columns == ["n", "n_low", "n_high"]
    expected = client.query("SELECT COUNT(*) AS n FROM people WHERE sex = 'Female'").rows
    assert sent(client, parse("FETCH 1 FROM c"), bind(), describe(), execute()).rows == expected


def test_a_statement_is_prepared_executed_and_given_back(
    known: Deployment, client: RawClient
) -> None:
    text = "PREPARE one(text, int) AS SELECT COUNT(*) AS n FROM people WHERE sex = $1 OR age = $2"
    assert client.query(text).tags == ["PREPARE"]
    assert client.query(text).error["C"] == "42P05"
    assert client.query("EXECUTE one('Female')").error["C"] == "42601"
    assert client.query("EXECUTE one('Female', 1 + 1)").error["C"] == "42601"
    assert client.query("EXECUTE one('Female', (SELECT 1))").error["C"] == "42601"
    client.query("PREPARE two AS SELECT COUNT(*) AS n FROM people WHERE sex = $1")
    expected = client.query("SELECT COUNT(*) AS n FROM people WHERE sex = 'Female'").rows
    assert client.query("EXECUTE two('Female')").rows == expected
    assert sent(client, bind(b"Female", name="two"), execute()).rows == expected
    client.query("DEALLOCATE two")
    assert client.query("EXECUTE two('Female')").error["C"] == "26000"


def test_what_a_pool_sends_between_two_users_is_answered(client: RawClient) -> None:
    text = "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL; DISCARD TEMP"
    assert client.query(text).tags == [
        "SELECT 1",
        "CLOSE CURSOR",
        "UNLISTEN",
        "RESET",
        "DISCARD TEMP",
    ]
    assert client.query("BEGIN; DISCARD ALL").error["C"] == "25001"


@pytest.mark.slow
def test_open_portals_of_a_connection_are_bounded_and_ended_ones_hold_nothing(
    client: RawClient,
) -> None:
    """Of portals of one megabyte as many can be open as the bound allows, at whatever place."""
    client.query("BEGIN")
    row = "SELECT string_agg(t.typname, ',') AS x FROM pg_type t, generate_series(1, 5000) AS s(x)"
    [[value]] = client.query(row).rows
    n_bytes, opened = len(value or ""), 0
    client.send(message(b"P", b"big\0" + f"{row} UNION ALL SELECT 'end'".encode() + b"\0\0\0"))
    for i in range(2 * MOST_BYTES // n_bytes):
        name = f"p{i}\0".encode()
        client.send(message(b"B", name + b"big\0" + bytes(6)))
        client.send(message(b"E", name + struct.pack("!i", 1)) + message(b"S", b""))
        reply = client.until()
        if reply.of(b"E"):
            assert reply.error["C"] == "54000"
            break
        opened += 1
    assert MOST_BYTES // n_bytes // 2 <= opened <= 2 * MOST_BYTES // n_bytes
