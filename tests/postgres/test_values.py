"""Values of prepared statements: each type in text and in binary, by PostgreSQL's own rules."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime

import pytest

from qserver.postgres.wire.faults import PostgresError
from qserver.postgres.wire.values import (
    ARRAY_OF,
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
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Column,
    Literal,
    Parameter,
    Type,
    encoder,
    values_of,
)

OPEN = Type(0, "left open", -1)


def _binary_day(day: date) -> bytes:
    return struct.pack("!i", (day - date(2000, 1, 1)).days)


@pytest.mark.parametrize(
    ("kind", "sent", "literal"),
    [
        (INT2, b" -7 ", "-7"),
        (INT4, b"12", "12"),
        (INT8, b"9007199254740993", "9007199254740993"),
        (OID, b"16384", "16384"),
        (FLOAT4, b"1.5", "1.5"),
        (FLOAT8, b"1e3", "1e3"),
        (NUMERIC, b"0.10", "0.10"),
        (DATE, b"2024-03-01", "'2024-03-01'"),
        (TEXT, b"it's", "'it''s'"),
        (OPEN, b"a", "'a'"),
    ],
)
def test_a_value_in_text_is_one_literal(kind: Type, sent: bytes, literal: str) -> None:
    assert Parameter(kind.oid, False, sent).literal.text == literal


@pytest.mark.parametrize(
    ("kind", "sent", "literal"),
    [
        (BOOL, b"\1", "TRUE"),
        (BOOL, b"\0", "FALSE"),
        (INT2, struct.pack("!h", -300), "-300"),
        (INT4, struct.pack("!i", 70_000), "70000"),
        (INT8, struct.pack("!q", 2**40 + 1), "1099511627777"),
        (OID, struct.pack("!I", 2**32 - 1), "4294967295"),
        (FLOAT4, struct.pack("!f", 0.5), "0.5"),
        (FLOAT8, struct.pack("!d", 0.1), "0.1"),
        (DATE, _binary_day(date(2024, 2, 29)), "'2024-02-29'"),
        (DATE, _binary_day(date(1, 1, 1)), "'0001-01-01'"),
        (TIMESTAMP, struct.pack("!q", 86_400_000_000), "'2000-01-02 00:00:00.000000'"),
        (TIMESTAMPTZ, struct.pack("!q", -1), "'1999-12-31 23:59:59.999999'"),
        (NUMERIC, struct.pack("!HhHH2H", 2, 0, 0, 2, 12, 5000), "12.50"),
        (NUMERIC, struct.pack("!HhHH2H", 2, 1, 0x4000, 0, 1, 2345), "-12345"),
        (NUMERIC, struct.pack("!HhHH1H", 1, -1, 0, 4, 7), "0.0007"),
        (NUMERIC, struct.pack("!HhHH1H", 1, 1, 0, 0, 3), "30000"),
        (NUMERIC, struct.pack("!HhHH", 0, 0, 0, 1), "0.0"),
        (DATE, _binary_day(date(9999, 12, 31)), "'9999-12-31'"),
        *((kind, "ü'".encode(), "'ü'''") for kind in (TEXT, VARCHAR, NAME, CHAR, OPEN)),
    ],
)
def test_a_value_in_binary_is_one_literal(kind: Type, sent: bytes, literal: str) -> None:
    assert Parameter(kind.oid, True, sent).literal.text == literal


@pytest.mark.parametrize("is_true", [True, False])
def test_a_truth_value_is_known_by_every_word_of_postgresql(is_true: bool) -> None:
    said = "t tr tru true TRUE y ye yes on 1" if is_true else "f fa fal fals false n no of off 0 F"
    for word in said.split():
        found = Parameter(BOOL.oid, False, f" {word} ".encode()).literal
        assert found == Literal("TRUE" if is_true else "FALSE")


@pytest.mark.parametrize(
    ("kind", "is_binary", "sent", "code"),
    [
        *((BOOL, False, word, "22P02") for word in (b"", b"o", b"maybe", b"truer", b"2", b"10")),
        (INT4, False, b"twelve", "22P02"),
        (INT4, False, b"", "22P02"),
        (FLOAT8, False, b"nan", "22023"),
        (FLOAT8, True, struct.pack("!d", float("inf")), "22023"),
        (INT4, True, b"\0\0", "08P01"),
        (INT4, True, b"\0" * 5, "08P01"),
        (DATE, True, struct.pack("!i", 2**31 - 1), "22023"),
        (DATE, True, struct.pack("!i", -(2**31)), "22023"),
        (DATE, True, struct.pack("!i", 3_000_000), "22023"),
        (TEXT, False, b"\xff", "22021"),
        (NUMERIC, True, b"\0", "08P01"),
        (NUMERIC, True, struct.pack("!HhHH", 0, 0, 0xC000, 0), "22023"),
        (NUMERIC, True, struct.pack("!HhHHH", 1, 0, 0, 0, 10_000), "22023"),
        (NUMERIC, True, struct.pack("!HhHHH", 1, 30_000, 0, 0, 1), "22023"),
        (NUMERIC, True, struct.pack("!HhHH", 9, 0, 0, 0), "08P01"),
        (TIMESTAMP, True, struct.pack("!q", 2**63 - 1), "22023"),
        (ARRAY_OF[INT4], True, struct.pack("!iiIii", 1, 0, 23, 2**31 - 1, 1), "08P01"),
        (ARRAY_OF[INT4], True, struct.pack("!iiIiiii", 2, 0, 23, 1, 1, 1, 1), "0A000"),
        (ARRAY_OF[INT4], False, b"{1,x}", "22P02"),
    ],
)
def test_what_is_no_value_of_its_type_is_refused(
    kind: Type, is_binary: bool, sent: bytes, code: str
) -> None:
    with pytest.raises(PostgresError) as caught:
        _ = Parameter(kind.oid, is_binary, sent).literal
    assert caught.value.state == code


def test_nothing_is_null_whatever_its_type() -> None:
    for kind in (BOOL, INT4, DATE, TEXT, OPEN):
        for is_binary in (False, True):
            assert Parameter(kind.oid, is_binary, None).literal == Literal("NULL")


@pytest.mark.parametrize(
    ("kind", "sent", "number"),
    [
        (OPEN, b"12", "12"),
        (TEXT, b"-1.5", "-1.5"),
        (VARCHAR, b"1e3", ""),
        (TEXT, b"1.", ""),
        (TEXT, b" 1", ""),
        (OPEN, b"9" * 39, "9" * 39),
        (OPEN, b"9" * 40, ""),
        (NAME, b"12", ""),
        (INT4, b"123", ""),
    ],
)
def test_a_text_that_looks_like_a_number_may_be_one_where_its_type_was_left_open(
    kind: Type, sent: bytes, number: str
) -> None:
    assert Parameter(kind.oid, False, sent).literal.number == number


@pytest.mark.parametrize(
    ("kind", "is_binary", "sent", "literal"),
    [
        (INT4, False, b"{1,-2,NULL}", "ARRAY[1, -2, NULL]"),
        (TEXT, False, b'{a,"b, \\"c\\"",NULL,"NULL"}', "ARRAY['a', 'b, \"c\"', NULL, 'NULL']"),
        (DATE, False, b"{2024-03-01}", "ARRAY['2024-03-01']"),
        (INT4, False, b"{}", "ARRAY[]"),
        (INT4, True, struct.pack("!iiI", 0, 0, 23), "ARRAY[]"),
        (INT2, True, struct.pack("!iiIiiihi", 1, 1, 21, 2, 1, 2, 7, -1), "ARRAY[7, NULL]"),
        (TEXT, True, struct.pack("!iiIiii1s", 1, 0, 25, 1, 1, 1, b"'"), "ARRAY['''']"),
    ],
)
def test_an_array_is_one_of_literals(
    kind: Type, is_binary: bool, sent: bytes, literal: str
) -> None:
    assert Parameter(ARRAY_OF[kind].oid, is_binary, sent).literal.text == literal


NOON = datetime(2000, 1, 1, 12, tzinfo=UTC)
_NOON = struct.pack("!q", 43_200_000_000)


@pytest.mark.parametrize(
    ("kind", "value", "text", "binary"),
    [
        (BOOL, True, b"t", b"\1"),
        (BOOL, False, b"f", b"\0"),
        (INT8, -5, b"-5", struct.pack("!q", -5)),
        (FLOAT8, 3.0, b"3", struct.pack("!d", 3.0)),
        (FLOAT8, float("-inf"), b"-Infinity", struct.pack("!d", float("-inf"))),
        (TEXT, "ü", "ü".encode(), "ü".encode()),
        (DATE, date(2024, 3, 1), b"2024-03-01", _binary_day(date(2024, 3, 1))),
        (TIMESTAMPTZ, NOON, b"2000-01-01 12:00:00+00", _NOON),
        (TIMESTAMP, NOON.replace(tzinfo=None), b"2000-01-01 12:00:00", _NOON),
        (
            ARRAY_OF[TEXT],
            ["a", 'b "c"', None],
            b'{a,"b \\"c\\"",NULL}',
            struct.pack("!iiIiii1si5si", 1, 1, 25, 3, 1, 1, b"a", 5, b'b "c"', -1),
        ),
        (ARRAY_OF[INT2], [], b"{}", struct.pack("!iiI", 0, 0, 21)),
        (INT4, None, None, None),
    ],
)
def test_a_result_is_printed_as_postgresql_prints_it_and_packed_as_it_packs_it(
    kind: Type, value: object, text: bytes | None, binary: bytes | None
) -> None:
    column = Column("n", kind)
    assert values_of(encoder([column, column], [0, 1])([value, value])) == [text, binary]


def test_a_number_that_is_too_large_for_its_type_is_refused() -> None:
    encode = encoder([Column("n", INT2)], [1])
    with pytest.raises(PostgresError) as caught:
        encode([2**15])
    assert caught.value.state == "22003"
