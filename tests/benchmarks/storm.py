"""A storm of questions, and how short requests fare in it: `python -m tests.benchmarks.storm`.

Many clients ask at once, each a question that nobody has asked before, and follow their job until
it has an answer. Meanwhile one connection each asks for health, repeats a free question, and asks a
free question in words that were not used before. `threads` is gunicorn's own worker, where a
waiting question holds a thread; `parked` is ours. They take turns, each on an empty store.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from qserver.cli.local.demo_data import adult_csv, adult_domain
from qserver.cli.processes.children import http_spec, listen
from qserver.config import LOOPBACK, Settings
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store

from .machine import Times
from .stack import _ready, _running, attach, working

KINDS = {"threads": ("--worker-class", "gthread"), "parked": ()}
_OWN_LIMIT_S = 120.0
_THINK_S = 0.01
_PATH = "/v1/datasets/adult/query"


@dataclass
class Seen:
    """What the clients and the short requests met."""

    ends: Counter[str] = field(default_factory=Counter)
    waits_s: list[float] = field(default_factory=list)
    refusals: Counter[int] = field(default_factory=Counter)
    times_s: dict[str, list[float]] = field(default_factory=dict)


def main() -> int:
    """Run both kinds in turns and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.storm")
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    asked = parser.parse_args()
    for i_round, kind in itertools.product(range(asked.rounds), asked.kinds):
        sys.stdout.write(f"round {i_round + 1}, {kind}, load {os.getloadavg()[0]:.1f}\n")
        sys.stdout.write(_table(_storm(kind, asked.clients)))
        sys.stdout.flush()
    return 0


def _storm(kind: str, n_clients: int) -> Seen:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(EmbeddedServer.start(folder))
        settings = Settings(redis_url=store.url, state_dir=folder, open_access=True)
        data = ("--data", str(adult_csv()), "--domain", str(adult_domain()))
        attach(settings, "adult", *data, "--limit", "100000", log=folder / "attach.log")
        reader = Store.open(settings)
        alive = lambda: reader.worker_alive("adult")  # noqa: E731
        stack.enter_context(working(settings, log=folder / "worker.log", alive=alive))
        listener = stack.enter_context(contextlib.closing(listen(LOOPBACK, 0)))
        spec = http_spec(
            settings, listener=listener, log=folder / "http.log", environ=dict(os.environ)
        )
        *command, app = spec.command
        stack.enter_context(_running(replace(spec, command=(*command, *KINDS[kind], app))))
        return asyncio.run(_all(_ready(listener).port, n_clients))


async def _all(port: int, n_clients: int) -> Seen:
    seen, stop = Seen(), asyncio.Event()
    free = json.dumps(_question(40, 40))
    async with _Connection.open(port) as first:
        while (await first.send("POST", _PATH, free)).status != 200:
            await asyncio.sleep(0.1)
        for _ in range(40):  # both processes have read the history and keep the answer
            await first.send("POST", _PATH, free)
    spaces = itertools.count(1)
    probes = {
        "healthz": lambda: ("GET", "/healthz", ""),
        "repeated": lambda: ("POST", _PATH, free),
        "free, new words": lambda: ("POST", _PATH, free + " " * next(spaces)),
    }
    probing = [
        asyncio.create_task(_probe(port, make, seen.times_s.setdefault(name, []), stop))
        for name, make in probes.items()
    ]
    begun = time.monotonic()
    await asyncio.gather(*(_client(port, body, seen) for body in _fresh(n_clients)))
    seen.times_s["all clients"] = [time.monotonic() - begun]
    stop.set()
    await asyncio.gather(*probing)
    return seen


async def _probe(port: int, make: Any, times_s: list[float], stop: asyncio.Event) -> None:
    async with _Connection.open(port) as connection:
        while not stop.is_set():
            begun = time.monotonic()
            await connection.send(*make())
            times_s.append(time.monotonic() - begun)
            await asyncio.sleep(_THINK_S)


async def _client(port: int, body: str, seen: Seen) -> None:
    begun, end = time.monotonic(), "late"
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        async with asyncio.timeout(_OWN_LIMIT_S), _Connection.open(port) as connection:
            end = await _followed(connection, body, seen)
    seen.ends[end] += 1
    seen.waits_s.append(time.monotonic() - begun)


async def _followed(connection: _Connection, body: str, seen: Seen) -> str:
    """How a question ended, with the job that the server made of it."""
    reply = await connection.send("POST", _PATH, body)
    while reply.status in (429, 503):
        seen.refusals[reply.status] += 1
        await asyncio.sleep(reply.retry_after_s)
        reply = await connection.send("POST", _PATH, body)
    job = json.loads(reply.body)
    if reply.status == 200:
        return str(job["source"])
    while job["state"] in ("queued", "running"):
        begun = time.monotonic()
        reply = await connection.send("GET", f"/v1/jobs/{job['id']}", more="Prefer: wait=10\r\n")
        job = json.loads(reply.body)
        if time.monotonic() - begun < 1.0:  # a server that does not let jobs be waited for
            await asyncio.sleep(1.0)
    return f"job {job['state']}"


def _question(age: int, hours: int) -> dict[str, Any]:
    where = {"age": {"between": [age, age]}, "hours-per-week": {"between": [hours, hours]}}
    query = {"query": {"where": where}, "length": 200, "confidence": 0.9}
    return {**query, "measure": "only_this"}


def _fresh(n: int) -> Iterator[str]:
    cells = itertools.product(range(17, 40), range(1, 99))
    return (json.dumps(_question(*cell)) for cell in itertools.islice(cells, n))


@dataclass(frozen=True)
class _Reply:
    status: int
    body: bytes
    retry_after_s: float


@dataclass
class _Connection:
    """A kept-alive connection, which is made anew where the server closes it."""

    port: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, port: int) -> AsyncIterator[_Connection]:
        connection = cls(port, *await asyncio.open_connection(LOOPBACK, port))
        try:
            yield connection
        finally:
            connection.writer.close()

    async def send(self, method: str, path: str, body: str = "", *, more: str = "") -> _Reply:
        head = f"{method} {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\n{more}"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(f"{head}\r\n{body}".encode())
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        content = await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self.writer.close()
            self.reader, self.writer = await asyncio.open_connection(LOOPBACK, self.port)
        return _Reply(int(lines[0].split()[1]), content, float(headers.get("retry-after", "1")))


def _table(seen: Seen) -> str:
    lines = [f"  ends {dict(seen.ends)}, refusals met {dict(seen.refusals)}"]
    elapsed_s = seen.times_s.pop("all clients")[0]
    rate, longest_s = len(seen.waits_s) / elapsed_s, max(seen.waits_s)
    lines.append(f"  {rate:.1f} clients/s, longest {longest_s:.1f} s")
    for name, times_s in seen.times_s.items():
        times = Times.of_seconds(times_s)
        lines.append(
            f"  {name:16} p50 {times.median_ms:7.1f}  p99 {times.quantile_ms(0.99):8.1f}  "
            f"max {max(times_s) * 1000:8.1f} ms of {len(times_s)}"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
