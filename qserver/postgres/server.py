"""Takes connections, each with its own thread, up to a bound, until told to stop."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from qserver.postgres.limits import Limits
from qserver.postgres.wire import messages
from qserver.postgres.wire.faults import TOO_MANY, PostgresError
from qserver.postgres.wire.messages import Stream


@dataclass
class PostgresServer:
    """Connections on a listening socket.

    Args:
        converse: speaks with one client, given its stream and address, until it goes.
    """

    listener: socket.socket
    converse: Callable[[Stream, str], None]
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self._stop, self._stopper = socket.socketpair()
        self._stopper.setblocking(False)
        self._threads: dict[threading.Thread, str] = {}
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Let `run` end: idle clients are told at once, others after their statement."""
        # Never read, so it stays readable for all; a signal may come twice.
        with contextlib.suppress(OSError):
            self._stopper.send(b"x")

    def run(self, *, grace_s: float) -> None:
        """Take connections until `stop`, then wait so many seconds for running statements."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        self.listener.setblocking(False)
        while self._stop.fileno() not in (ready := [fd for fd, _ in poll.poll()]):
            if ready:
                self._take()
        self.listener.close()
        self._wait(time.monotonic() + grace_s)
        self._stop.close()
        self._stopper.close()

    def _take(self) -> None:
        try:
            client, address = self.listener.accept()
        except OSError:
            # The client is gone, or there are no descriptors: others may close some meanwhile.
            time.sleep(0.01)
            return
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = Stream(client, self._stop, self.limits)
        if self._is_full(address[0]):
            _refuse(stream, client)
            return
        thread = threading.Thread(target=self._serve, args=(stream, address[0]), daemon=True)
        with self._lock:
            self._threads[thread] = address[0]
        thread.start()

    def _is_full(self, address: str) -> bool:
        with self._lock:
            n, own = len(self._threads), list(self._threads.values()).count(address)
        is_own = address.startswith("127.") or address in ("::1", "::ffff:127.0.0.1")
        return n >= self.limits.most or (own >= self.limits.most_of_one and not is_own)

    def _serve(self, stream: Stream, address: str) -> None:
        try:
            self.converse(stream, address)
        finally:
            with self._lock:
                self._threads.pop(threading.current_thread(), None)

    def _wait(self, deadline: float) -> None:
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _refuse(stream: Stream, client: socket.socket) -> None:
    """Refuse one client too many, without reading what it sends."""
    client.settimeout(0.0)
    fault = PostgresError(TOO_MANY, "There are too many connections.", ends=True)
    with contextlib.suppress(OSError):
        client.send(messages.error(fault))
    stream.close()
