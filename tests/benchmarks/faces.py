"""The ways in which a user asks: a bare body, the Python client, SQL, the port, pages, commands.

Each takes a statement of SQL, or where it says so a count, and returns when its answer is there.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import qserver
from qserver.config import LOOPBACK
from tests.postgres.client import RawClient

from .load import ROOT

_TIMEOUT_S, _IDLE_S, _SEE_OTHER = 120.0, 10.0, 303


@dataclass(frozen=True)
class Count:
    """A count: as the body of a request, and as SQL.

    Args:
        where: the conditions, as over HTTP.
        conditions: the same in SQL.
        length: of the interval at 95 percent.
    """

    where: Mapping[str, Any]
    conditions: str
    length: float

    @property
    def document(self) -> dict[str, Any]:
        """The body of a request."""
        return {"query": {"where": self.where}, "length": self.length, "confidence": 0.95}

    def sql(self, dataset: str) -> str:
        """The same as a statement."""
        text = f"SELECT COUNT(*) AS n FROM {dataset} WHERE {self.conditions}"
        return f"{text} WITHIN {self.length / 2:g}"


class Body:
    """Requests over one connection that is kept, as any program sends them.

    The server closes what was idle for 30 s, so that a connection which was idle long is made anew.
    """

    def __init__(self, port: int, dataset: str) -> None:
        self._connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_S)
        self._path = f"/v1/datasets/{dataset}"
        self._used_at = 0.0

    def count(self, asked: Count) -> Mapping[str, Any]:
        """POST the structured question; its answer."""
        return self._answered(f"{self._path}/query", json.dumps(asked.document))

    def sql(self, text: str) -> Mapping[str, Any]:
        """POST the statement; its table."""
        return self._answered(f"{self._path}/sql", json.dumps({"sql": text}))

    def spent(self) -> float:
        """Epsilon that was spent by now."""
        return json.loads(self._sent("GET", self._path)[1])["spent"]

    def page(self, text: str) -> None:
        """GET the portal's page of the answer, or that of the job which computes it, at its end."""
        where = self._path.replace("/v1/", "/portal/")
        status, found = self._sent("GET", f"{where}/answer?{urlencode({'text': text})}")
        while status == _SEE_OTHER:
            job = urlsplit(place := found.decode()).path.rsplit("/", 1)[-1]
            self._done(job)
            status, found = self._sent("GET", place)

    def echo(self, asked: Count) -> None:
        """POST a question to an echo."""
        self._sent("POST", "/", json.dumps(asked.document))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _answered(self, path: str, body: str) -> Mapping[str, Any]:
        """Ask until the answer is there: a job is waited for, and then a table asked again."""
        while True:
            status, text = self._sent("POST", path, body)
            found = json.loads(text)
            if status == 202:
                found = self._done(found["id"])
            if found is not None:
                return found

    def _done(self, job: str) -> Any:
        """The result of a job, once it is there; None for a table."""
        while True:
            found = json.loads(self._sent("GET", f"/v1/jobs/{job}", prefer="wait=10")[1])
            if found["state"] == "done":
                return found["result"] if "source" in (found["result"] or {}) else None
            if found["state"] not in ("queued", "running"):
                raise RuntimeError(f"A question failed: {found}")

    def _sent(
        self, method: str, path: str, body: str | None = None, *, prefer: str = ""
    ) -> tuple[int, bytes]:
        """The status, and the text; of a redirect the place that it leads to."""
        head = {"Content-Type": "application/json"} if body else {}
        if time.monotonic() > self._used_at + _IDLE_S:
            self._connection.close()
        self._connection.request(method, path, body, {**head, "Prefer": prefer} if prefer else head)
        reply = self._connection.getresponse()
        text = reply.read()
        self._used_at = time.monotonic()
        if reply.status == _SEE_OTHER:
            return reply.status, reply.headers["Location"].encode()
        if reply.status not in (200, 202):
            raise RuntimeError(f"{path} was answered with {reply.status}: {text[:500]!r}")
        return reply.status, text


@dataclass(frozen=True)
class Faces:
    """Every way to ask of one dataset.

    Args:
        body: over HTTP by hand.
        sql: all ways that take a statement, by name.
        count: all ways that take a count, by name.
    """

    body: Body
    sql: Mapping[str, Callable[[str], object]]
    count: Mapping[str, Callable[[Count], object]]


@contextlib.contextmanager
def faces_of(dataset: str, *, http: int, postgres: int) -> Iterator[Faces]:
    """The ways to ask of a dataset, of a server at these ports."""
    with contextlib.ExitStack() as stack:
        body = stack.enter_context(contextlib.closing(Body(http, dataset)))
        url = f"http://{LOOPBACK}:{http}"
        client = qserver.Client(url, timeout_s=_TIMEOUT_S, wait_s=_TIMEOUT_S)
        port = stack.enter_context(_port(postgres))
        sql: dict[str, Callable[[str], object]] = {
            "SQL body": body.sql,
            "client, SQL": lambda text: (client.price if _explains(text) else client.sql)(text),
            "port": port,
            "page": body.page,
            "command": lambda text: _command(text, url),
        }
        count: dict[str, Callable[[Count], object]] = {
            "body": body.count,
            "client": lambda c: client.query(dataset, {"where": dict(c.where)}, length=c.length),
        }
        yield Faces(body, sql, count)


def _explains(text: str) -> bool:
    return text.startswith("EXPLAIN ")


@contextlib.contextmanager
def _port(port: int) -> Iterator[Callable[[str], None]]:
    """Statements over one connection of PostgreSQL's protocol, which may spend."""
    with socket.create_connection((LOOPBACK, port), timeout=_TIMEOUT_S) as connection:
        client = RawClient(connection, connection, threading.current_thread())

        def ask(text: str) -> None:
            while reply := client.query(text):
                errors = reply.of(b"E")
                if not errors:
                    return
                if b"not_done" not in errors[0] and b"not there yet" not in errors[0]:
                    raise RuntimeError(f"The port refused: {errors[0]!r}")

        client.start()
        ask("SET qserver.spend = on")
        yield ask


def _command(text: str, url: str) -> None:
    call = [sys.executable, "-P", "-m", "qserver.cli.main", "sql", text, "--url", url]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The command failed: {done.stderr[-500:]}")
