"""Types and values: columns of results, and parameters as literals of SQL."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from qserver.postgres.wire.faults import (
    NOT_SUPPORTED,
    WRONG_VALUE,
    PostgresError,
    violation,
)


@dataclass(frozen=True)
class Type:
    """A type of PostgreSQL: its number, its name, and its bytes in binary, -1 where that varies."""

    oid: int
    name: str
    size: int


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
NUMERIC: Final = Type(1700, "numeric", -1)
TYPES: Final = (
    BOOL, CHAR, NAME, INT8, INT2, INT4, TEXT, OID, FLOAT4, FLOAT8, VARCHAR, DATE, NUMERIC
)  # fmt: skip
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
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?\Z")
_MOST_DIGITS = 40
_NUMBERS = frozenset({*_PACKED, NUMERIC.oid})
_EPOCH = date(2000, 1, 1)
_TRUTHS: Mapping[str, Sequence[str]] = {
    "TRUE": ("true", "yes", "on", "1"),
    "FALSE": ("false", "no", "of", "off", "0"),
}


@dataclass(frozen=True)
class Column:
    """A column of a result."""

    name: str
    type: Type


@dataclass(frozen=True)
class Literal:
    """A value as SQL has it.

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
        """The value as SQL has it, always one literal; PostgresError."""
        if self.value is None:
            return Literal("NULL")
        found = self._of_binary(self.value) if self.is_binary else self._of_text(self.value)
        plain = found[1:-1]
        is_open = self.oid in _OPEN and len(plain) < _MOST_DIGITS
        return Literal(found, plain if is_open and _NUMBER.match(plain) else "")

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
        if self.oid in (0, CHAR.oid, NAME.oid, TEXT.oid, VARCHAR.oid, _UNKNOWN):
            return quoted(_decoded(value))
        raise PostgresError(
            NOT_SUPPORTED,
            f"A parameter of type {self.oid} must be sent as text, or cast to text.",
        )


def quoted(text: str) -> str:
    """A literal of a text."""
    return "'" + text.replace("'", "''") + "'"


def _truth(text: str) -> str:
    """A truth value by the words that PostgreSQL takes, and what they begin with."""
    word = text.strip().lower()
    for literal, (long, short, *others) in _TRUTHS.items():
        if word and (long.startswith(word) or short.startswith(word) or word in others):
            return literal
    raise PostgresError("22P02", "A parameter is neither true nor false.")


def _day(n_days: int) -> date:
    try:
        return _EPOCH + timedelta(days=n_days)
    except OverflowError as exc:
        raise PostgresError(WRONG_VALUE, "A date must be from year 1 to year 9999.") from exc


def _number(number: float, text: str) -> str:
    if not math.isfinite(number):
        raise PostgresError(WRONG_VALUE, "A parameter must be finite.")
    return text.strip()


def _unpacked(form: str, value: bytes) -> Any:
    try:
        return struct.unpack(form, value)[0]
    except struct.error as exc:
        raise violation("A parameter has another length than its type.") from exc


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as exc:
        raise PostgresError("22021", "A text is not UTF-8.") from exc


def as_text(value: Any) -> str:
    """A value as PostgreSQL prints it."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if not isinstance(value, float):
        return str(value)
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).removesuffix(".0")


def elements(array: str) -> list[str]:
    """The texts of an array as PostgreSQL writes it, such as `{a,"b c"}`."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^{},\s][^{},]*)', array)
    return [re.sub(r"\\(.)", r"\1", quoted) if quoted else plain for quoted, plain in found]


def _as_binary(value: Any, kind: Type) -> bytes:
    if kind is BOOL:
        return b"\1" if value else b"\0"
    if kind.name.startswith("_"):
        return _array(elements(str(value)))
    form = _PACKED.get(kind.oid)
    if form is None:
        return as_text(value).encode("utf-8", "replace")
    try:
        return struct.pack(form, value)
    except struct.error as exc:
        raise PostgresError("22003", "A number is too large for its type.") from exc


def _array(texts: Sequence[str]) -> bytes:
    """An array of texts: its dimension, the type and number of elements, and each of them."""
    found = struct.pack("!iiI", int(bool(texts)), 0, TEXT.oid)
    found += struct.pack("!ii", len(texts), 1) if texts else b""
    for one in texts:
        value = one.encode("utf-8", "replace")
        found += struct.pack("!i", len(value)) + value
    return found


def encoders(
    columns: Sequence[Column], formats: Sequence[int]
) -> list[Callable[[Any], bytes | None]]:
    """Per column what makes a value bytes, in text (0) or binary (1); None stays None."""

    def encoder(kind: Type, form: int) -> Callable[[Any], bytes | None]:
        if form == 1:
            return lambda value: None if value is None else _as_binary(value, kind)
        return lambda value: None if value is None else as_text(value).encode("utf-8", "replace")

    return [encoder(c.type, form) for c, form in zip(columns, formats, strict=True)]
