"""A connection as messages: reads each within its time and size, and writes what has gathered."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import time

from qserver.postgres.wire.faults import STOPPING, TOO_LARGE, PostgresError, violation

_FLUSH_BYTES = 1 << 16


class GoneError(Exception):
    """The client is gone, or was too slow; nobody is left to tell."""


class Stream:
    """The bytes of one client.

    Args:
        stop: readable once the server shall stop.
        idle_s: how long a client may be silent between messages, in seconds.
        message_s: how long the rest of a message, or what is sent, may take.
        max_bytes: of a message; a longer one ends the connection.
    """

    def __init__(
        self,
        client: socket.socket,
        stop: socket.socket,
        *,
        idle_s: float,
        message_s: float,
        max_bytes: int,
    ) -> None:
        self._socket = client
        self._stop = stop
        self._idle_s, self._message_s, self._max_bytes = idle_s, message_s, max_bytes
        self._out = bytearray()

    @property
    def is_secure(self) -> bool:
        """Whether TLS is spoken."""
        return isinstance(self._socket, ssl.SSLSocket)

    def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on; GoneError where that fails."""
        # Nothing is read ahead, so no byte sent before TLS counts as said within it.
        self._socket.settimeout(self._message_s)
        try:
            self._socket = context.wrap_socket(self._socket, server_side=True)
        except (OSError, ValueError) as exc:
            raise GoneError from exc

    def first_packet(self, *, deadline: float) -> bytes:
        """A packet before the session: its length of four bytes, and what it says."""
        return self._body(self._exactly(4, deadline), deadline, most=10_000)

    def message(self, *, deadline: float | None = None) -> tuple[bytes, bytes]:
        """The next message: its letter and its body.

        Raises:
            PostgresError: it is too long, the client was silent too long, or the server stops.
            GoneError: the client is gone, or too slow.
        """
        if deadline is None:
            self._await()
            deadline = time.monotonic() + self._message_s
        letter = self._exactly(1, deadline)
        return letter, self._body(self._exactly(4, deadline), deadline, most=self._max_bytes)

    def send(self, *messages: bytes) -> None:
        """Gather messages; they leave with `flush`, or when there are many."""
        for one in messages:
            self._out += one
        if len(self._out) > _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what has gathered; GoneError."""
        self._socket.settimeout(self._message_s)
        try:
            self._socket.sendall(self._out)
        except OSError as exc:
            raise GoneError from exc
        finally:
            self._out.clear()

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _await(self) -> None:
        """Return when the client says something."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(self._idle_s * 1000)}
        if self._stop.fileno() in ready:
            raise PostgresError(STOPPING, "The server stops.", ends=True)
        if not ready:
            raise PostgresError("57P05", "The connection was idle for too long.", ends=True)

    def _body(self, length: bytes, deadline: float, *, most: int) -> bytes:
        n = struct.unpack("!i", length)[0] - 4
        if n < 0:
            raise violation("A message must say its length.")
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
