"""Types and values: columns of results, and parameters as literals of SQL."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from qserver.postgres.wire.faults import (
    NOT_SUPPORTED,
    WRONG_VALUE,
    PostgresError,
    violation,
)


@dataclass(frozen=True)
class Type:
    """A type of PostgreSQL: its number, its name, and its bytes in binary, -1 where that varies.

    Args:
        of: the number of the elements' type, of an array.
    """

    oid: int
    name: str
    size: int
    of: int = 0


BOOL: Final = Type(16, "bool", 1)
CHAR: Final = Type(18, "char", 1)
NAME: Final = Type(19, "name", 64)
INT8: Final = Type(20, "int8", 8)
INT2: Final = Type(21, "int2", 2)
INT4: Final = Type(23, "int4", 4)
TEXT: Final = Type(25, "text", -1)
OID: Final = Type(26, "oid", 4)
FLOAT4: Final = Type(700, "float4", 4)
FLOAT8: Final = Type(701, "float8", 8)
VARCHAR: Final = Type(1043, "varchar", -1)
DATE: Final = Type(1082, "date", 4)
TIMESTAMP: Final = Type(1114, "timestamp", 8)
TIMESTAMPTZ: Final = Type(1184, "timestamptz", 8)
NUMERIC: Final = Type(1700, "numeric", -1)
TYPES: Final = (
    *(BOOL, CHAR, NAME, INT8, INT2, INT4, TEXT, OID, FLOAT4, FLOAT8, VARCHAR, DATE, TIMESTAMP),
    *(TIMESTAMPTZ, NUMERIC),
)
_ARRAY_OIDS = (1000, 1002, 1003, 1016, 1005, 1007, 1009, 1028, 1021, 1022, 1015, 1182, 1115, 1185)
ARRAYS: Final = tuple(
    Type(oid, f"_{kind.name}", -1, kind.oid)
    for oid, kind in zip((*_ARRAY_OIDS, 1231), TYPES, strict=True)
)
BY_NAME: Final[Mapping[str, Type]] = {kind.name: kind for kind in (*TYPES, *ARRAYS)}
BY_OID: Final[Mapping[int, Type]] = {kind.oid: kind for kind in BY_NAME.values()}
ARRAY_OF: Final[Mapping[Type, Type]] = dict(zip(TYPES, ARRAYS, strict=True))
_PACKED: Mapping[int, str] = {
    INT2.oid: "!h",
    INT4.oid: "!i",
    INT8.oid: "!q",
    OID.oid: "!I",
    FLOAT4.oid: "!f",
    FLOAT8.oid: "!d",
}
_UNKNOWN = 705
_OPEN = frozenset({0, TEXT.oid, VARCHAR.oid, _UNKNOWN})
_TEXTS = frozenset({*_OPEN, CHAR.oid, NAME.oid})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?\Z")
_MOST_DIGITS = 40
_NUMBERS = frozenset({*_PACKED, NUMERIC.oid})
_TIMES = frozenset({TIMESTAMP.oid, TIMESTAMPTZ.oid})
_EPOCH = date(2000, 1, 1)
_EPOCH_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_DIGITS_OF_4 = 10_000
_NEGATIVE = 0x4000
_TRUTHS: Mapping[str, Sequence[str]] = {
    "TRUE": ("true", "yes", "on", "1"),
    "FALSE": ("false", "no", "of", "off", "0"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result."""

    name: str
    type: Type


@dataclass(frozen=True)
class Literal:
    """A value in SQL.

    Args:
        number: the same without quotes, where its type was left open and it looks like a number.
    """

    text: str
    number: str = ""


@dataclass(frozen=True)
class Parameter:
    """A value of a prepared statement.

    Args:
        oid: of its type; 0 where the client leaves that to us.
        is_binary: whether its bytes are the type's own.
        value: its bytes; None for NULL.
    """

    oid: int
    is_binary: bool
    value: bytes | None

    @property
    def literal(self) -> Literal:
        """The value in SQL, one literal or ARRAY of them; PostgresError."""
        if self.value is None:
            return Literal("NULL")
        kind = BY_OID.get(self.oid)
        if kind is not None and kind.of:
            return Literal(f"ARRAY[{', '.join(self._elements(kind, self.value))}]")
        found = self._of_binary(self.value) if self.is_binary else self._of_text(self.value)
        plain = found[1:-1]
        is_open = self.oid in _OPEN and len(plain) < _MOST_DIGITS
        return Literal(found, plain if is_open and is_number(plain) else "")

    def _elements(self, kind: Type, value: bytes) -> Iterable[str]:
        parts = _array_parts(value) if self.is_binary else elements(_decoded(value))
        for part in parts:
            sent = part.encode() if isinstance(part, str) else part
            yield Parameter(kind.of, self.is_binary, sent).literal.text

    def _of_text(self, value: bytes) -> str:
        text = _decoded(value)
        if self.oid in _NUMBERS:
            try:
                return _number(float(text), text)
            except ValueError as exc:
                raise PostgresError("22P02", "A parameter is no number.") from exc
        if self.oid == BOOL.oid:
            return _truth(text)
        return quoted(text)

    def _of_binary(self, value: bytes) -> str:
        if (form := _PACKED.get(self.oid)) is not None:
            number = _unpacked(form, value)
            return _number(number, repr(number))
        if self.oid == BOOL.oid:
            return "TRUE" if value != b"\0" else "FALSE"
        if self.oid == DATE.oid:
            return quoted(_day(_unpacked("!i", value)).isoformat())
        if self.oid in _TIMES:
            return quoted(_time(_unpacked("!q", value)).strftime("%Y-%m-%d %H:%M:%S.%f"))
        if self.oid == NUMERIC.oid:
            return _numeric(value)
        if self.oid in _TEXTS:
            return quoted(_decoded(value))
        raise PostgresError(
            NOT_SUPPORTED,
            f"Send the parameter of type {self.oid} as text, or cast it to text.",
        )


def is_number(text: str) -> bool:
    """Whether a text is a number in SQL."""
    return _NUMBER.match(text) is not None


def quoted(text: str) -> str:
    """The literal of a text."""
    return "'" + text.replace("'", "''") + "'"


def _truth(text: str) -> str:
    """A truth value by PostgreSQL's words and their beginnings."""
    word = text.strip().lower()
    for literal, (long, short, *others) in _TRUTHS.items():
        if word and (long.startswith(word) or short.startswith(word) or word in others):
            return literal
    raise PostgresError("22P02", "A parameter is neither true nor false.")


def _day(n_days: int) -> date:
    try:
        return _EPOCH + timedelta(days=n_days)
    except OverflowError as exc:
        raise PostgresError(WRONG_VALUE, "Dates go from year 1 to year 9999.") from exc


def _time(n_micros: int) -> datetime:
    try:
        return _EPOCH_TIME + timedelta(microseconds=n_micros)
    except OverflowError as exc:
        raise PostgresError(WRONG_VALUE, "Times go from year 1 to year 9999.") from exc


def _number(number: float, text: str) -> str:
    if not math.isfinite(number):
        raise PostgresError(WRONG_VALUE, "A parameter must be finite.")
    return text.strip()


def _numeric(value: bytes) -> str:
    """A number by its digits of four: how many, the first one's power, a sign, and a scale."""
    n, weight, sign, scale = _unpacked("!HhHH", value[:8])
    if sign not in (0, _NEGATIVE):
        raise PostgresError(WRONG_VALUE, "A parameter must be finite.")
    digits = _unpacked(f"!{n}H", value[8:])
    if any(digit >= _DIGITS_OF_4 for digit in digits) or max(abs(weight), scale) > _MOST_DIGITS:
        raise PostgresError(WRONG_VALUE, "A numeric parameter has too many digits.")
    places = {weight - i: digit for i, digit in enumerate(digits)}
    whole = "".join(f"{places.get(i, 0):04}" for i in range(max(weight, 0), -1, -1)).lstrip("0")
    part = "".join(f"{places.get(i, 0):04}" for i in range(-1, -(scale + 3) // 4 - 1, -1))[:scale]
    return ("-" if sign else "") + (whole or "0") + (f".{part}" if scale else "")


def _unpacked(form: str, value: bytes) -> Any:
    try:
        found = struct.unpack(form, value)
    except struct.error as exc:
        raise violation("A parameter's length does not fit its type.") from exc
    return found[0] if len(form) == len("!i") else found


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as exc:
        raise PostgresError("22021", "A text is not UTF-8.") from exc


def _array_parts(value: bytes) -> Iterable[bytes | None]:
    """The elements of an array in binary, of one dimension."""
    n_dimensions, _, _ = _unpacked("!iiI", value[:12])
    if n_dimensions == 0:
        return
    n, _ = _unpacked("!ii", value[12:20])
    if n_dimensions != 1 or n < 0:
        raise PostgresError(NOT_SUPPORTED, "Only arrays of one dimension are read.")
    at = 20
    for _ in range(n):
        size = _unpacked("!i", value[at : at + 4])
        at += 4
        if size > len(value) - at:
            raise violation("An array ends before its elements do.")
        yield None if size < 0 else value[at : at + size]
        at += max(size, 0)


def as_text(value: Any) -> str:
    """A value as PostgreSQL prints it."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, list):
        return "{" + ",".join(map(_element, value)) + "}"
    if isinstance(value, datetime):
        shown = value.isoformat(" ")
        return shown[: -len(":00")] if value.tzinfo is not None else shown
    if not isinstance(value, float):
        return str(value)
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).removesuffix(".0")


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    text = as_text(value)
    if re.fullmatch(r"[\w.-]+", text) and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def elements(array: str) -> list[str | None]:
    """The texts of an array as PostgreSQL writes it, such as `{a,"b c",NULL}`."""
    found = re.findall(r'("(?:[^"\\]|\\.)*")|([^{},\s][^{},]*)', array)
    return [
        re.sub(r"\\(.)", r"\1", said[1:-1]) if said else None if plain.upper() == "NULL" else plain
        for said, plain in found
    ]


def _as_binary(value: Any, kind: Type) -> bytes:
    if kind.of:
        return _array(value, BY_OID[kind.of])
    if kind is BOOL:
        return b"\1" if value else b"\0"
    if kind is DATE:
        return struct.pack("!i", (value - _EPOCH).days)
    if kind in (TIMESTAMP, TIMESTAMPTZ):
        time = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return struct.pack("!q", (time - _EPOCH_TIME) // timedelta(microseconds=1))
    form = _PACKED.get(kind.oid)
    if form is None:
        return as_text(value).encode("utf-8", "replace")
    try:
        return struct.pack(form, value)
    except struct.error as exc:
        raise PostgresError("22003", "A number is too large for its type.") from exc


def _array(values: Sequence[Any], kind: Type) -> bytes:
    """An array: its dimension, whether it has NULL, the type and number of elements, and each."""
    found = struct.pack("!iiI", int(bool(values)), int(None in values), kind.oid)
    found += struct.pack("!ii", len(values), 1) if values else b""
    for one in values:
        value = None if one is None else _as_binary(one, kind)
        found += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return found


def formats_of(formats: Sequence[int], n: int) -> list[int]:
    """The format of each column, 0 for text or 1 for binary: each its own, one for all, or text."""
    if len(formats) not in (0, 1, n):
        raise PostgresError("08P01", "Give one format for all columns, or one for each.")
    return list(formats) * n if len(formats) == 1 else list(formats) or [0] * n


def encoder(columns: Sequence[Column], formats: Sequence[int]) -> Callable[[Sequence[Any]], bytes]:
    """An encoder of rows: the number of values, and each behind its length, -1 for NULL."""
    kinds = [c.type if form else None for c, form in zip(columns, formats, strict=True)]
    head = struct.pack("!H", len(columns))

    def encoded(row: Sequence[Any]) -> bytes:
        found = bytearray(head)
        for value, kind in zip(row, kinds, strict=True):
            if value is None:
                found += b"\xff\xff\xff\xff"
                continue
            one = _as_binary(value, kind) if kind else as_text(value).encode("utf-8", "replace")
            found += len(one).to_bytes(4) + one
        return bytes(found)

    return encoded


def values_of(row: bytes) -> list[bytes | None]:
    """The values of a row from `encoder`."""
    found, at = list[bytes | None](), 2
    while at < len(row):
        size = int.from_bytes(row[at : at + 4], signed=True)
        at += 4
        found.append(None if size < 0 else row[at : at + size])
        at += max(size, 0)
    return found
