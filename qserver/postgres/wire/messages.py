"""Messages: the server's as bytes, and the checked fields of the client's.

A message is a letter, a length of four bytes, and what it says.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from qserver.postgres.limits import Limits
from qserver.postgres.wire.faults import STOPPING, TOO_LARGE, PostgresError, violation
from qserver.postgres.wire.values import Column

AUTHENTICATED: Final = b"R" + struct.pack("!ii", 8, 0)
ASK_PASSWORD: Final = b"R" + struct.pack("!ii", 8, 3)
PARSED: Final = b"1\0\0\0\4"
BOUND: Final = b"2\0\0\0\4"
CLOSED: Final = b"3\0\0\0\4"
NO_DATA: Final = b"n\0\0\0\4"
SUSPENDED: Final = b"s\0\0\0\4"
EMPTY_QUERY: Final = b"I\0\0\0\4"
COPIED: Final = b"c\0\0\0\4"


def message(letter: bytes, body: bytes) -> bytes:
    """A message of any kind."""
    return letter + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """A text that a zero ends; a zero within it is left out, and so is what UTF-8 cannot hold."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


def ready(status: str) -> bytes:
    """Ready for the next statement: `I` idle, `T` in a transaction, `E` in a failed one."""
    return message(b"Z", status.encode())


def parameter(name: str, value: str) -> bytes:
    """A setting that clients need."""
    return message(b"S", text(name) + text(value))


def key_data(process: int) -> bytes:
    """The number that a request to cancel would name; the secret is 0."""
    return message(b"K", struct.pack("!iI", process, 0))


def complete(tag: str) -> bytes:
    """The end of a statement."""
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


def copy_out(n_columns: int, *, is_binary: bool) -> bytes:
    """The start of copied rows, until `COPIED`."""
    formats = [int(is_binary)] * n_columns
    return message(b"H", struct.pack(f"!bH{n_columns}h", is_binary, n_columns, *formats))


class Fields:
    """Reads the fields of one message in turn; a short message is a violation."""

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
        """The number of fields that follow: 0 to 65,535."""
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


_FLUSH_BYTES = 1 << 16


class GoneError(Exception):
    """The client is gone or was too slow; nobody is left to tell."""


class Stream:
    """The bytes of one client.

    Args:
        stop: readable once the server shall stop.

    Attributes:
        while_sending: around what waits for the client.
    """

    def __init__(self, client: socket.socket, stop: socket.socket, limits: Limits) -> None:
        self._socket, self._stop, self._limits = client, stop, limits
        self._out = bytearray()
        self.while_sending: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext

    @property
    def is_secure(self) -> bool:
        """Whether the stream uses TLS."""
        return isinstance(self._socket, ssl.SSLSocket)

    def secure(self, context: ssl.SSLContext) -> None:
        """Use TLS from now on; GoneError if that fails."""
        # Nothing is read ahead, so no byte sent before TLS counts as said within it.
        self._socket.settimeout(self._limits.message_s)
        try:
            self._socket = context.wrap_socket(self._socket, server_side=True)
        except (OSError, ValueError) as exc:
            raise GoneError from exc

    def first_packet(self, *, deadline: float) -> bytes:
        """A packet before the session: its length of four bytes, and its content."""
        return self._body(self._exactly(4, deadline), deadline, most=10_000)

    def message(self, *, deadline: float | None = None) -> tuple[bytes, bytes]:
        """The next message: its letter and its body.

        Raises:
            PostgresError: it is too long, the client was silent too long, or the server stops.
            GoneError: the client is gone, or too slow.
        """
        if deadline is None:
            self._await()
            deadline = time.monotonic() + self._limits.message_s
        letter = self._exactly(1, deadline)
        return letter, self._body(self._exactly(4, deadline), deadline, most=self._limits.max_bytes)

    def send(self, *messages: bytes) -> None:
        """Gather messages; `flush` sends them, or a large number of them."""
        for one in messages:
            self._out += one
        if len(self._out) > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the gathered messages; GoneError."""
        self._socket.settimeout(self._limits.message_s)
        try:
            with self.while_sending():
                self._socket.sendall(self._out)
        except OSError as exc:
            raise GoneError from exc
        finally:
            self._out.clear()

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def is_gone(self) -> bool:
        """Whether the client has ended its side and no longer waits."""
        poll = select.poll()
        poll.register(self._socket, select.POLLRDHUP)
        return bool(poll.poll(0))

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _await(self) -> None:
        """Return when the client sends something."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(self._limits.idle_s * 1000)}
        if self._stop.fileno() in ready:
            raise PostgresError(STOPPING, "The server stops.", ends=True)
        if not ready:
            raise PostgresError("57P05", "The connection was idle for too long.", ends=True)

    def _body(self, length: bytes, deadline: float, *, most: int) -> bytes:
        n = struct.unpack("!i", length)[0] - 4
        if n < 0:
            raise violation("A message says no length.")
        if n > most:
            raise PostgresError(TOO_LARGE, f"A message has at most {most:,} bytes.", ends=True)
        return self._exactly(n, deadline)

    def _exactly(self, n: int, deadline: float) -> bytes:
        found = bytearray()
        while len(found) < n:
            left = deadline - time.monotonic()
            if left <= 0:
                raise GoneError
            self._socket.settimeout(left)
            try:
                part = self._socket.recv(min(n - len(found), 1 << 16))
            except OSError as exc:
                raise GoneError from exc
            if not part:
                raise GoneError
            found += part
        return bytes(found)
