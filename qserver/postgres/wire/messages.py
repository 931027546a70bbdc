"""Messages: those of the server as bytes, and the fields of the client's, each checked to be there.

A message is a letter, a length of four bytes, and what it says.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from qserver.postgres.wire.faults import PostgresError, violation
from qserver.postgres.wire.values import Column

AUTHENTICATED: Final = b"R" + struct.pack("!ii", 8, 0)
ASK_PASSWORD: Final = b"R" + struct.pack("!ii", 8, 3)
PARSED: Final = b"1\0\0\0\4"
BOUND: Final = b"2\0\0\0\4"
CLOSED: Final = b"3\0\0\0\4"
NO_DATA: Final = b"n\0\0\0\4"
SUSPENDED: Final = b"s\0\0\0\4"
EMPTY_QUERY: Final = b"I\0\0\0\4"


def message(letter: bytes, body: bytes) -> bytes:
    """A message of any kind."""
    return letter + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """A text that a zero ends; a zero within it is left out, and so is what UTF-8 cannot hold."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


def ready(status: str) -> bytes:
    """Ready for the next statement: `I` idle, `T` in a transaction, `E` in one that failed."""
    return message(b"Z", status.encode())


def parameter(name: str, value: str) -> bytes:
    """A setting that clients want to know."""
    return message(b"S", text(name) + text(value))


def key_data(process: int, secret: int) -> bytes:
    """What a request to cancel would name."""
    return message(b"K", struct.pack("!iI", process, secret))


def complete(tag: str) -> bytes:
    """A statement is done."""
    return message(b"C", text(tag))


def error(fault: PostgresError) -> bytes:
    """An error; FATAL where the connection ends."""
    severity = "FATAL" if fault.ends else "ERROR"
    return message(b"E", _fields(severity, fault))


def notice(words: str, *, severity: str = "NOTICE") -> bytes:
    """A line that clients show beside a result."""
    state = "01000" if severity == "WARNING" else "00000"
    return message(b"N", _fields(severity, PostgresError(state, words)))


def _fields(severity: str, fault: PostgresError) -> bytes:
    fields = {
        b"S": severity,
        b"V": severity,
        b"C": fault.state,
        b"M": fault.message,
        b"D": fault.detail,
        b"H": fault.hint,
        b"P": str(fault.position) if fault.position else "",
    }
    return b"".join(key + text(value) for key, value in fields.items() if value) + b"\0"


def row_description(columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """The names and types of columns; a format per column, 0 text or 1 binary."""
    found = [struct.pack("!h", len(columns))]
    for column, form in zip(columns, formats, strict=True):
        kind = column.type
        found.append(text(column.name))
        found.append(struct.pack("!ihihih", 0, 0, kind.oid, kind.size, -1, form))
    return message(b"T", b"".join(found))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of the parameters of a prepared statement."""
    return message(b"t", struct.pack(f"!h{len(oids)}I", len(oids), *oids))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """One row, its values in the formats that were announced."""
    found = [struct.pack("!h", len(values))]
    for value in values:
        found.append(struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)))
        found.append(value or b"")
    return message(b"D", b"".join(found))


class Fields:
    """Reads the fields of one message in turn; whatever is short is a violation."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, n: int) -> bytes:
        """The next n bytes."""
        found = self._body[self._at : self._at + n]
        if n < 0 or len(found) != n:
            raise violation("A message ends before its fields do.")
        self._at += n
        return found

    def number(self, n_bytes: int) -> int:
        """A signed number of 2 or 4 bytes."""
        form = "!h" if n_bytes == 2 else "!i"
        return int(struct.unpack(form, self.take(n_bytes))[0])

    def count(self) -> int:
        """How many follow: 0 to 65,535."""
        return self.number(2) & 0xFFFF

    def oid(self) -> int:
        """The number of a type."""
        return self.number(4) & 0xFFFFFFFF

    def text(self) -> str:
        """A text up to its zero."""
        stop = self._body.find(b"\0", self._at)
        if stop < 0:
            raise violation("A text has no end.")
        found = self.take(stop - self._at)
        self._at += 1
        try:
            return found.decode()
        except UnicodeDecodeError as exc:
            raise violation("A text is not UTF-8.") from exc

    def value(self) -> bytes | None:
        """A value with its length before it; None for NULL."""
        length = self.number(4)
        return None if length == -1 else self.take(length)

    def end(self) -> None:
        """Return if nothing is left."""
        if self._at != len(self._body):
            raise violation("A message is longer than its fields.")
