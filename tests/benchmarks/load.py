"""A load generator in a process of its own: closed loop, keep-alive connections, bounded.

`python -m tests.benchmarks.load < plan.json > outcome.json`. It speaks just enough HTTP to leave
the processor to the server: a request is bytes made beforehand, an answer is read by its length.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .machine import Times

ROOT = Path(__file__).parents[2]
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Plan:
    """What to send.

    Args:
        bodies: request bodies, each sent once, in this order; connections take turns.
        n_connections: requests under way at a time.
    """

    port: int
    path: str
    bodies: tuple[str, ...]
    n_connections: int


@dataclass(frozen=True)
class Outcome:
    """What came back.

    Args:
        seconds: per request, from the first byte sent to the last one read.
        elapsed_s: from the first request to the last answer.
        statuses: number of answers by HTTP status.
        sources: number of answers by their member `source`, if they have one.
    """

    seconds: tuple[float, ...]
    elapsed_s: float
    statuses: Mapping[str, int]
    sources: Mapping[str, int]

    @property
    def times(self) -> Times:
        """The requests' times."""
        return Times.of_seconds(self.seconds)

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.seconds) / self.elapsed_s


def generate(plan: Plan) -> Outcome:
    """Send the plan from another process and wait for its outcome.

    Raises:
        RuntimeError: an answer had another status than 200, or a connection failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.load"],
        input=json.dumps(asdict(plan)),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"The load generator failed: {done.stderr[-2000:]}")
    outcome = Outcome(**json.loads(done.stdout))
    if set(outcome.statuses) != {"200"}:
        raise RuntimeError(f"Every answer must have status 200, got {dict(outcome.statuses)}.")
    return outcome


@dataclass(frozen=True)
class _Reply:
    seconds: float
    status: str
    body: bytes


def play(plan: Plan) -> Outcome:
    """Send the plan from this process."""
    requests = iter([_request(plan.path, body.encode()) for body in plan.bodies])
    replies: list[_Reply] = []
    lock = threading.Lock()
    sockets = [
        socket.create_connection(("127.0.0.1", plan.port), timeout=_TIMEOUT_S)
        for _ in range(plan.n_connections)
    ]
    threads = [
        threading.Thread(target=_send_all, args=(s, requests, replies, lock)) for s in sockets
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.perf_counter() - start
    if len(replies) != len(plan.bodies):
        raise RuntimeError("A connection failed.")
    sources = [json.loads(r.body).get("source") for r in replies]
    return Outcome(
        seconds=tuple(r.seconds for r in replies),
        elapsed_s=elapsed_s,
        statuses=dict(Counter(r.status for r in replies)),
        sources=dict(Counter(s for s in sources if s is not None)),
    )


def _send_all(
    connection: socket.socket,
    requests: Iterator[bytes],
    replies: list[_Reply],
    lock: threading.Lock,
) -> None:
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            with lock:
                request = next(requests, None)
            if request is None:
                return
            replies.append(_exchange(connection, request))


def _request(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _exchange(connection: socket.socket, request: bytes) -> _Reply:
    start = time.perf_counter()
    connection.sendall(request)
    received = b""
    while b"\r\n\r\n" not in received:
        received += _some(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    length = _content_length(head)
    while len(body) < length:
        body += _some(connection)
    seconds = time.perf_counter() - start
    return _Reply(seconds, head[9:12].decode(), body)


def _some(connection: socket.socket) -> bytes:
    part = connection.recv(1 << 16)
    if not part:
        raise ConnectionError("The server closed the connection.")
    return part


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ConnectionError("An answer must have a Content-Length.")


def repeated(bodies: Sequence[str], n: int) -> tuple[str, ...]:
    """`n` bodies: these, over and over."""
    return tuple(bodies[i % len(bodies)] for i in range(n))


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump(asdict(play(Plan(**asked))), sys.stdout)
