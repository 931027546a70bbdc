"""The catalogue of a connection: its own process takes statements and returns rows."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from qserver.postgres.catalogue import child
from qserver.postgres.results import Result
from qserver.postgres.statements.processes import used_s
from qserver.postgres.statements.turns import Lane, Turns
from qserver.postgres.wire.faults import TOO_LATE, PostgresError
from qserver.postgres.wire.messages import GoneError, Stream
from qserver.postgres.wire.values import BY_OID, Column
from qserver.query.sql.tables.catalogue_relations import Names

_QUICK_S: Final = 0.1
"""Of the processor, for a statement of a client that looks around; others wait for these."""
_LOOK_MS: Final = 20
_quick, _long = Lane(2), Lane(2)
"""Those that are at work at once: for two processors. A long one that waits is stopped."""


def _too_much() -> PostgresError:
    return PostgresError(
        TOO_LATE, f"The query took more than {child.MOST_SECONDS:g} s of the processor."
    )


class _Template:
    """The first process, started on demand."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def fork(self) -> socket.socket:
        """A process for a connection, reached by the other end of its socket."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._channel is not None  # noqa: S101 - it has just started
            socket.send_fds(self._channel, [b"x"], [theirs.fileno()])
        return ours

    def end(self) -> None:
        """End the process, if there is one; those of connections go on."""
        if self._channel is not None:
            self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> None:
        self.end()
        self._channel, theirs = socket.socketpair()
        paths = {str(Path(_place(name)).parents[1]) for name in ("qserver", "sqlglot", "duckdb")}
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own program, no shell
                [sys.executable, "-I", "-S", _place(child.__name__), str(theirs.fileno()), *paths],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
                env={},
            )


def _place(module: str) -> str:
    """The file of a module, which is not imported."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module, name=module)
    return spec.origin


_template = _Template()
atexit.register(_template.end)


class Catalogue:
    """The catalogue of one connection.

    Args:
        client: when it has gone nobody waits any more.
        turns: who waits here gives up its turn meanwhile.

    Attributes:
        process: the number of its process; 0 where there is none now.
    """

    def __init__(self, client: Stream, turns: Turns | None = None) -> None:
        self._client, self._turns = client, turns or Turns()
        self._lane: Lane | None = None
        self._quick_until = 0.0
        self._socket: socket.socket | None = None
        self._handle: int | None = None
        self.process = 0
        self._names: Names | None = None

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)
        if self._socket is not None:
            self._socket.close()
        self._socket, self._handle, self._names, self.process = None, None, None, 0

    def columns(self, text: str, names: Names) -> tuple[Column, ...]:
        """The columns of one SELECT; PostgresError, GoneError."""
        return self._asked(text, names, (), describes=True).columns or ()

    def run(self, text: str, names: Names, formats: Sequence[int]) -> Result:
        """The rows of one SELECT; PostgresError, GoneError."""
        return self._asked(text, names, formats, describes=False)

    def _asked(self, text: str, names: Names, formats: Sequence[int], *, describes: bool) -> Result:
        request = {"text": text, "formats": list(formats), "describes": describes}
        with self._turns.paused():
            _quick.enter(0.0, self._client.is_gone)
            self._lane = _quick
            try:
                return self._answered(request, names)
            finally:
                if self._lane is _long:
                    self.close()  # the system cannot make it a quick one again
                if self._lane is not None:
                    self._lane.leave()

    def _answered(self, request: dict[str, object], names: Names) -> Result:
        columns, rows, fault = tuple[Column, ...](), list[bytes](), None
        try:
            if self._socket is None:
                self._open()
            request["names"] = None if self._names == names else json.dumps(asdict(names))
            self._names, self._quick_until = names, used_s(self.process) + _QUICK_S
            self._send(json.dumps(request).encode())
            for kind, body in self._frames():
                if kind == child.COLUMNS:
                    columns = tuple(Column(n, BY_OID[oid]) for n, oid in json.loads(body))
                elif kind == child.ROWS:
                    rows += _split(body)
                else:
                    state, message, hint = json.loads(body)
                    fault = PostgresError(state, message, hint=hint)
        except BaseException:
            self.close()  # its reply must not be taken for the next one's
            raise
        if fault is not None:
            raise fault
        return Result("SELECT", columns, rows)

    def _open(self) -> None:
        self._socket = _template.fork()
        pid = int.from_bytes(self._exactly(4))
        self._handle, self.process = os.pidfd_open(pid), pid

    def _send(self, request: bytes) -> None:
        assert self._socket is not None  # noqa: S101 - it was opened before
        try:
            self._socket.sendall(len(request).to_bytes(4) + request)
        except OSError as exc:
            raise _too_much() from exc

    def _frames(self) -> Iterator[tuple[bytes, bytes]]:
        while True:
            head = self._exactly(5)
            body = self._exactly(int.from_bytes(head[1:]))
            if head[:1] == child.DONE:
                return
            yield head[:1], body

    def _exactly(self, n: int) -> bytes:
        """So many bytes of the reply, while the client is there."""
        assert self._socket is not None  # noqa: S101 - it was opened before
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._client.fileno(), select.POLLRDHUP)
        found = bytearray()
        while len(found) < n:
            ready = [fd for fd, _ in poll.poll(None if self._lane is _long else _LOOK_MS)]
            if self._client.fileno() in ready:
                raise GoneError
            if not ready:
                if self.process and used_s(self.process) > self._quick_until:
                    self._give_way()
                continue
            part = self._socket.recv(n - len(found))
            if not part:
                raise _too_much()
            found += part
        return bytes(found)

    def _give_way(self) -> None:
        """Let others be quick, and use the processor time that they leave, in turn; GoneError."""
        assert self._handle is not None  # noqa: S101 - it was opened before
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._handle, signal.SIGSTOP)
            os.sched_setscheduler(self.process, os.SCHED_IDLE, os.sched_param(0))
        _quick.leave()
        self._lane = None
        _long.enter(0.0, self._client.is_gone)
        self._lane = _long
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._handle, signal.SIGCONT)


def _split(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4])
        yield body[at + 4 : at + 4 + size]
        at += 4 + size
