"""What a client does, without doing it: steps that a driver carries out, waiting or awaiting.

A flow yields a step and is sent what came of it, so one text serves the plain and the async client.
Questions carry an idempotency key made once per call: however often one is sent again after a
broken connection or a refusal that asks for patience, the server answers and charges it once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from qserver.client_errors import NotDoneError, ServerProblemError, ServerUnreachableError
from qserver.http_client import HttpClient, Reply, problem_of

T = TypeVar("T")
_FIRST_POLL_S = 0.1
_LONGEST_POLL_S = 2.0
_GROWTH = 1.5
_FIRST_RETRY_S = 0.2
_FIRST_SERVER_FAULT = 500


@dataclass(frozen=True)
class Call:
    """One HTTP request.

    Args:
        segments: of the path.
        document: the body of a POST; None is a GET.
        query: parameters of a GET.
    """

    segments: tuple[str, ...]
    document: Mapping[str, Any] | None = None
    query: Mapping[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def outcome(self, http: HttpClient) -> Reply | Failure:
        """The reply, or why there is none."""
        try:
            if self.document is None:
                return http.get(*self.segments, query=self.query)
            return http.post(*self.segments, document=self.document, headers=self.headers)
        except (ServerProblemError, ServerUnreachableError) as exc:
            return exc


@dataclass(frozen=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


Failure = ServerProblemError | ServerUnreachableError
Step = Call | Pause
Flow = Generator[Step, Any, T]


@dataclass(frozen=True)
class Patience:
    """How long and how often a client tries.

    Args:
        retries: how often a request is sent again at most.
        wait_s: how long an answer is waited for in all, in seconds.
        clock: seconds, monotonic.
        new_key: makes idempotency keys.
    """

    retries: int
    wait_s: float
    clock: Callable[[], float]
    new_key: Callable[[], str] = field(default=lambda: uuid.uuid4().hex)


def read(patience: Patience, *segments: str, **query: str) -> Flow[Mapping[str, Any]]:
    """The document at a path."""
    reply = yield from _tried(patience, Call(segments, query=query or None))
    return reply.document


def told(
    patience: Patience, *segments: str, document: Mapping[str, Any]
) -> Flow[Mapping[str, Any]]:
    """What the server says to a request that spends nothing."""
    reply = yield from _tried(patience, Call(segments, document))
    return reply.document


def answered(
    patience: Patience, *segments: str, document: Mapping[str, Any]
) -> Flow[Mapping[str, Any]]:
    """The answer of a question: sent under one key, its job waited for, then sent again.

    Sent again, since a job holds the answers of the questions behind a statement of SQL, which
    the server makes into a table; under the same key it is free.

    Raises:
        NotDoneError: the time is over, and the job goes on.
        ServerProblemError: the server refused, or the job failed.
    """
    call = Call(segments, document, headers={"Idempotency-Key": patience.new_key()})
    deadline = patience.clock() + patience.wait_s
    reply = yield from _tried(patience, call)
    while reply.status == 202:
        yield from _done(patience, reply.document, deadline)
        reply = yield from _tried(patience, call)
    return reply.document


def _done(patience: Patience, job: Mapping[str, Any], deadline: float) -> Flow[None]:
    """Return when the job has ended well."""
    pause_s = _FIRST_POLL_S
    while job["state"] in ("queued", "running"):
        if patience.clock() + pause_s > deadline:
            raise NotDoneError(
                f"The answer is not there yet (job {job['id']}). Ask again: whatever is measured "
                "meanwhile is answered for nothing."
            )
        yield Pause(pause_s)
        pause_s = min(_LONGEST_POLL_S, pause_s * _GROWTH)
        job = (yield from _tried(patience, Call(("v1", "jobs", str(job["id"]))))).document
    if job["state"] == "failed":
        raise problem_of(job["problem"] or {})


def _tried(patience: Patience, call: Call) -> Flow[Reply]:
    """The reply to a call, which is sent again where that may help."""
    pause_s = _FIRST_RETRY_S
    for left in range(patience.retries, -1, -1):
        found: Reply | Failure = yield call
        if isinstance(found, Reply):
            return found
        if not left or not _may_pass(found):
            raise found
        yield Pause(max(pause_s, getattr(found, "retry_after_s", None) or 0.0))
        pause_s *= 2
    raise AssertionError("The last try returns or raises.")


def _may_pass(error: Failure) -> bool:
    """Whether sending the same again may help: no server, no time, or a proxy without one."""
    if isinstance(error, ServerUnreachableError) or error.retry_after_s is not None:
        return True
    return error.code == "bad_reply" and (error.status or 0) >= _FIRST_SERVER_FAULT
