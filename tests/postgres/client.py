"""A client that speaks the protocol byte by byte, and so can also speak it wrongly."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from qserver.api.access import Access, OpenAccess
from qserver.postgres.connection import House, converse
from qserver.postgres.limits import Limits
from qserver.postgres.statements.asker import Shown
from qserver.postgres.statements.turns import Turns
from qserver.postgres.wire.messages import Stream
from qserver.service.service import Service

Message = tuple[bytes, bytes]
Socket = socket.socket
TIMEOUT_S = 60


def message(letter: bytes, body: bytes) -> bytes:
    return letter + struct.pack("!i", len(body) + 4) + body


def startup(**options: str) -> bytes:
    pairs = {"user": "ada", "database": "qserver", **options}
    body = struct.pack("!i", 3 << 16)
    body += b"".join(f"{k}\0{v}\0".encode() for k, v in pairs.items()) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


@dataclass
class Reply:
    """What came up to `ready`."""

    messages: list[Message]

    @property
    def letters(self) -> str:
        return b"".join(letter for letter, _ in self.messages).decode()

    def of(self, letter: bytes) -> list[bytes]:
        return [body for kind, body in self.messages if kind == letter]

    @property
    def rows(self) -> list[list[str | None]]:
        return [_row(body) for body in self.of(b"D")]

    @property
    def columns(self) -> list[str]:
        [body] = self.of(b"T")
        found, at = [], 2
        for _ in range(struct.unpack("!h", body[:2])[0]):
            stop = body.index(b"\0", at)
            found.append(body[at:stop].decode())
            at = stop + 19
        return found

    @property
    def tags(self) -> list[str]:
        return [body[:-1].decode() for body in self.of(b"C")]

    @property
    def error(self) -> dict[str, str]:
        [body] = self.of(b"E")
        return fields(body)

    @property
    def status(self) -> str:
        return self.of(b"Z")[-1].decode()


def fields(body: bytes) -> dict[str, str]:
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


def _row(body: bytes) -> list[str | None]:
    found: list[str | None] = []
    at = 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        (n,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        found.append(None if n < 0 else body[at : at + n].decode())
        at += max(n, 0)
    return found


@dataclass
class RawClient:
    """One connection; `stopper` ends the server's side of it."""

    socket: Socket
    stopper: Socket
    thread: threading.Thread
    told: dict[str, str] = field(default_factory=dict)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def exactly(self, n: int) -> bytes:
        found = b""
        while len(found) < n:
            part = self.socket.recv(n - len(found))
            assert part, "the server ended the connection"
            found += part
        return found

    def message(self) -> Message:
        letter = self.exactly(1)
        (n,) = struct.unpack("!i", self.exactly(4))
        return letter, self.exactly(n - 4)

    def until(self, letter: bytes = b"Z") -> Reply:
        found = [self.message()]
        while found[-1][0] != letter:
            found.append(self.message())
        return Reply(found)

    def start(self, **options: str) -> Reply:
        self.send(startup(**options))
        reply = self.until()
        pairs = (body.split(b"\0") for body in reply.of(b"S"))
        self.told = {name.decode(): value.decode() for name, value, _ in pairs}
        return reply

    def query(self, text: str) -> Reply:
        self.send(message(b"Q", text.encode() + b"\0"))
        return self.until()

    def last(self) -> dict[str, str]:
        """The error with which the server ended the connection."""
        letter, body = self.message()
        assert letter == b"E"
        self.assert_ended()
        return fields(body)

    def assert_ended(self) -> None:
        # It is reset where what was sent last was not read.
        with contextlib.suppress(ConnectionResetError):
            assert self.socket.recv(1) == b""
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive()


@contextlib.contextmanager
def connected(
    service: Service,
    *,
    access: Access | None = None,
    tls: Any = None,
    limits: Limits | None = None,
    address: str = "127.0.0.1",
    turns: Turns | None = None,
    shown: Shown | None = None,
) -> Iterator[RawClient]:
    """A connection that has said nothing yet."""
    ours, theirs = socket.socketpair()
    stop, stopper = socket.socketpair()
    ours.settimeout(TIMEOUT_S)
    stream = Stream(theirs, stop, limits or Limits())
    house = House(service, access or OpenAccess(), tls, turns or Turns(), shown or Shown())
    thread = threading.Thread(target=converse, args=(house, stream, address))
    thread.start()
    client = RawClient(ours, stopper, thread)
    try:
        yield client
    finally:
        client.socket.close()
        thread.join(TIMEOUT_S)
        for one in (stop, stopper):
            one.close()
    assert not thread.is_alive()
