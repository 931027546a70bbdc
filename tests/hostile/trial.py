"""Send one hostile input to one route, and judge what came back."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from http.client import HTTPResponse

from tests.hostile.inputs import REQUIREMENT, HostileInput
from tests.hostile.stage import Stage

KINDS = ("query", "explain", "probability", "workload", "workload/explain")
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Trial:
    """What one input came to.

    Args:
        fault: what is wrong with the reply, or ''.
        seconds: from the first byte sent to the last one read.
    """

    name: str
    kind: str
    status: int
    code: str
    fault: str
    seconds: float


def try_input(hostile: HostileInput, *, stage: Stage, kind: str = "") -> Trial:
    """The reply of one route to one input. A server that does not answer raises OSError.

    Args:
        kind: of `KINDS`; '' for the input's own route.
    """
    kind = kind or hostile.route
    body = hostile.body()
    if kind == "probability":
        body = body.replace(REQUIREMENT.encode(), b'"at_least": 5')
    if kind.startswith("workload"):
        body = b'{"questions": [' + body + b"]}"
    begun = time.perf_counter()
    status, reply = _post(stage, f"/v1/datasets/{hostile.dataset}/{kind}", body)
    seconds = time.perf_counter() - begun
    code = str(reply.get("code", "answered"))
    fault = _fault(hostile, status, code, reply)
    return Trial(hostile.name, kind, status, code, fault, seconds)


def _post(stage: Stage, path: str, body: bytes) -> tuple[int, dict[str, object]]:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {stage.token}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", stage.port), timeout=TIMEOUT_S) as connection:
        connection.sendall(head.encode() + body)
        response = HTTPResponse(connection)
        response.begin()
        return response.status, json.loads(response.read())


def _fault(hostile: HostileInput, status: int, code: str, reply: dict[str, object]) -> str:
    if status >= 500:
        return f"status {status}"
    if hostile.codes and code not in hostile.codes:
        return f"the code is {code}"
    if hostile.field not in json.dumps(reply, ensure_ascii=False):
        return f"{hostile.field} is not named"
    return ""
