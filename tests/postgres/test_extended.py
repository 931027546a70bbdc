"""Prepared statements: their columns by the text alone, values in both formats, rows in parts."""

from __future__ import annotations

import struct

import pytest

from tests.deployment import Deployment
from tests.postgres.client import RawClient, Reply, message
from tests.service.test_statements import answered, spent

BY_SEX = "SELECT sex, COUNT(*) AS n FROM people WHERE age < $1 GROUP BY sex"
KNOWN = BY_SEX.replace("$1", "25")
SYNC = message(b"S", b"")


def parse(text: str, *oids: int, name: str = "") -> bytes:
    body = f"{name}\0{text}\0".encode() + struct.pack(f"!h{len(oids)}I", len(oids), *oids)
    return message(b"P", body)


def bind(
    *values: bytes | None,
    forms: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
    name: str = "",
) -> bytes:
    found = b"\0" + name.encode() + b"\0" + struct.pack(f"!h{len(forms)}h", len(forms), *forms)
    found += struct.pack("!h", len(values))
    for value in values:
        found += struct.pack("!i", -1 if value is None else len(value)) + (value or b"")
    return message(b"B", found + struct.pack(f"!h{len(results)}h", len(results), *results))


def describe(kind: bytes = b"P", name: str = "") -> bytes:
    return message(b"D", kind + name.encode() + b"\0")


def execute(most: int = 0) -> bytes:
    return message(b"E", b"\0" + struct.pack("!i", most))


def sent(client: RawClient, *messages: bytes) -> Reply:
    client.send(b"".join(messages) + SYNC)
    return client.until()


def test_the_columns_follow_from_the_text_and_nothing_is_spent(
    town: Deployment, client: RawClient
) -> None:
    """Also in a session that may spend, and of what history does not answer."""
    client.query("SET qserver.spend = on")
    reply = sent(client, parse(f"{BY_SEX} WITHIN $2"), describe(b"S"))
    assert reply.letters == "1tTZ"
    assert reply.columns == ["sex", "n", "n_low", "n_high"]
    assert reply.of(b"t") == [struct.pack("!hII", 2, 20, 701)]
    assert sent(client, bind(b"30", b"20"), describe()).columns == reply.columns
    for text in (
        "SELECT COUNT(*) FILTER (WHERE age < $1) AS n FROM people WITHIN 9",
        "SELECT COUNT_IF(sex = $1) AS n FROM people",
        "SELECT COUNT(*) AS n FROM (SELECT * FROM people WHERE sex = $1) AS t WHERE age > $2",
    ):
        assert sent(client, parse(text), describe(b"S")).columns == ["n", "n_low", "n_high"]
    assert sent(client, parse("EXPLAIN " + BY_SEX), describe(b"S")).columns[0] == "price"
    assert sent(client, parse("SET qserver.spend = off"), describe(b"S")).letters == "1tnZ"
    assert spent(town) == 0


_A_VALUE_COMES_AS_TEXT_AND_IN_B = [
    (0, b"25", 0),
    (23, b"25", 0),
    (23, struct.pack("!i", 25), 1),
    (21, struct.pack("!h", 25), 1),
    (20, struct.pack("!q", 25), 1),
    (701, struct.pack("!d", 25.0), 1),
    (1700, b"25", 0),
    (1043, b"25", 1),
]


@pytest.mark.slow
def test_a_value_comes_as_text_and_in_binary(town: Deployment, client: RawClient) -> None:
    for oid, value, form in _A_VALUE_COMES_AS_TEXT_AND_IN_B:
        answered(town, f"{KNOWN} WITHIN 20")
        expected = client.query(KNOWN).rows
        reply = sent(client, parse(BY_SEX, oid), bind(value, forms=(form,)), describe(), execute())
        assert reply.letters.replace("N", "") == "12TDDDCZ"
        assert reply.rows == expected
        assert reply.tags == ["SELECT 3"]


def test_a_value_is_one_literal_whatever_it_holds(client: RawClient) -> None:
    text = "SELECT COUNT(*) FROM people WHERE sex = $1"
    for value in (b"x' OR sex = 'Female", b"x'; SET qserver.spend = on; --", b"\\", b"$1"):
        reply = sent(client, parse(text), bind(value), execute())
        assert reply.error["C"] == "42601"
        assert "label" in reply.error["M"]
    # No label is empty, and tools ask for it: it counts nobody.
    assert sent(client, parse(text), bind(b""), execute()).rows == [["0", "0", "0"]]
    assert client.query("SHOW qserver.spend").rows == [["off"]]


def test_numbers_are_given_in_binary_where_they_are_wanted(
    town: Deployment, client: RawClient
) -> None:
    answered(town, f"{KNOWN} WITHIN 20")
    expected = [float(row[1] or 0) for row in client.query(KNOWN).rows]
    reply = sent(client, parse(KNOWN), bind(results=(0, 1, 1, 1)), execute())
    starts = [body.index(struct.pack("!i", 8)) + 4 for body in reply.of(b"D")]
    bodies = zip(reply.of(b"D"), starts, strict=True)
    assert [struct.unpack("!d", b[i : i + 8])[0] for b, i in bodies] == expected


def test_rows_come_in_parts_from_one_answer(town: Deployment, client: RawClient) -> None:
    answered(town, f"{KNOWN} WITHIN 20")
    reply = sent(client, parse(KNOWN), bind(), execute(2), execute(2), execute(2))
    assert reply.letters == "12NNDDsDCCZ"
    assert reply.tags == ["SELECT 1", "SELECT 0"]


def test_after_an_error_all_is_left_out_up_to_sync(client: RawClient) -> None:
    wrong = parse("SELECT COUNT(*) FROM people WHERE sex = 'nobody'")
    reply = sent(client, wrong, describe(b"S"), bind(), execute(), parse("SHOW TABLES"))
    assert reply.letters == "1tEZ"
    assert sent(client, parse("SHOW TABLES"), bind(), execute()).letters == "12DCZ"


_WHAT_DOES_NOT_FIT_IS_AN_ERROR = [
    ((bind(name="nobody"),), "26000"),
    ((describe(b"S", "nobody"),), "26000"),
    ((execute(),), "34000"),
    ((parse("SHOW TABLES; SHOW TABLES"),), "42601"),
    ((parse("SELECT $2000"),), "54000"),
    ((parse("SELECT $1"), bind(b"\xff")), "22021"),
    ((parse("SELECT $1", 23), bind(b"1; SHOW TABLES")), "22P02"),
    ((parse("SELECT $1", 701), bind(b"NaN")), "22023"),
    ((parse("SELECT $1", 2950), bind(b"0" * 16, forms=(1,))), "0A000"),
    ((parse("SELECT $0, $1"), bind(b"1"), execute()), "42P02"),
    ((parse("SELECT COUNT(*) FROM people WHERE age = $0 WITHIN 9"), bind(), execute()), "42P02"),
    ((parse("DROP TABLE people"),), "25006"),
]


def test_what_does_not_fit_is_an_error_and_the_connection_goes_on(client: RawClient) -> None:
    for messages, state in _WHAT_DOES_NOT_FIT_IS_AN_ERROR:
        assert sent(client, *messages).error["C"] == state
        assert sent(client, parse("SHOW TABLES"), bind(), execute()).rows == [["people"]]


def test_a_wrong_number_of_values_or_formats_is_an_error_before_anything_is_run(
    client: RawClient,
) -> None:
    for wrong in (
        bind(),
        bind(b"1", b"2"),
        bind(b"1", forms=(0, 0)),
        bind(b"1", forms=(2,)),
    ):
        assert sent(client, parse(BY_SEX), wrong, execute()).error["C"] == "08P01"
        assert sent(client, parse("SHOW TABLES"), bind(), execute()).rows == [["people"]]


def test_names_last_until_they_are_closed_and_nothing_is_done_twice(client: RawClient) -> None:
    reply = sent(client, parse("SHOW TABLES", name="one"), parse("", name="none"))
    assert reply.letters == "11Z"
    assert sent(client, bind(name="one"), execute()).rows == [["people"]]
    assert sent(client, bind(name="none"), describe(), execute()).letters == "2nIZ"
    assert sent(client, message(b"C", b"Sone\0"), message(b"C", b"Pnobody\0")).letters == "33Z"
    assert sent(client, bind(name="one")).error["C"] == "26000"
    for text in ('DEALLOCATE "one"', "DEALLOCATE PREPARE one", "DEALLOCATE ALL", "DISCARD ALL"):
        assert sent(client, parse("SHOW TABLES", name="one")).letters == "1Z"
        client.query(text)
        assert sent(client, bind(name="one")).error["C"] == "26000"
