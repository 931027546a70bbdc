"""Real HTTP calls, and the one check that every problem passes."""

from __future__ import annotations

import http.client
import json
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

QUERY = {"where": {"age": {"between": [2, 4]}, "sex": "Female"}}
QUESTION = {"query": QUERY, "length": 100, "confidence": 0.95}
SQL = {"sql": "SELECT COUNT(*) FROM adult WHERE sex = 'Female' WITHIN 50 CONFIDENCE 0.95"}
WORKLOAD = {
    "questions": [{"query": QUERY}, {"query": {"where": {"sex": "Male"}}, "length": 50}],
    "length": 100,
    "confidence": 0.95,
}
MODEL = {"kind": "network", "network": {"edges": [["sex", "age"]]}, "epsilon": 0.5}
MODEL_QUESTION = {
    "count": QUERY,
    "check": {"length": 100, "confidence": 0.95, "fallback_length": 20},
}
ASK = "/v1/datasets/adult/query"
AUDIT = {
    "network": {"edges": [["sex", "income"]], "variables": ["age"]},
    "records": 500,
    "gate": {"fpr": 0.05, "max_power": 0.1},
}


PROPOSAL = {"records": 5000, "gate": {"fpr": 0.05, "max_power": 0.1}}


@dataclass(frozen=True)
class Reply:
    """A response as it came over the wire."""

    status: int
    headers: http.client.HTTPMessage = field(repr=False)
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Caller:
    """A client of one server; each call has its own connection."""

    host: str
    port: int

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        return self.call("GET", path, headers=headers)

    def post(self, path: str, document: object, headers: Mapping[str, str] | None = None) -> Reply:
        body = json.dumps(document).encode()
        return self.send(path, body, headers=headers)

    def send(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        return self.call("POST", path, body=body, headers=all_headers)

    def send_chunks(self, path: str, chunks: bytes) -> Reply:
        """POST a body without a stated length, its chunks as they are given."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        try:
            connection.putrequest("POST", path)
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Transfer-Encoding", "chunked")
            connection.putheader("Connection", "close")
            connection.endheaders(chunks)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        try:
            connection.request(method, path, body=body, headers=dict(headers or {}))
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()


def chunk(content: bytes) -> bytes:
    """One chunk of a chunked body, and its end."""
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)


def assert_problem(reply: Reply, status: int, code: str) -> dict[str, Any]:
    """The problem document of a reply, which must be complete and of this status and code."""
    assert reply.status == status, reply.body
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["X-Request-Id"]
    problem = reply.document
    assert {"type", "title", "status", "detail", "code"} <= set(problem)
    assert (problem["status"], problem["code"]) == (status, code), problem
    assert problem["type"] == f"/docs#{code}"
    assert problem["title"]
    assert problem["detail"]
    return dict(problem)


def n_segments(sock: socket.socket) -> int:
    """How many segments with data came, by the kernel's `tcp_info`."""
    found = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int.from_bytes(found[152:156], sys.byteorder)
