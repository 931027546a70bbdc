"""What a client does, without doing it: steps that a driver carries out, waiting or awaiting.

A flow yields a step and is sent what came of it, so one text serves the plain and the async client.
Questions carry an idempotency key made once per call: however often one is sent again after a
broken connection or a refusal that asks for patience, the server answers and charges it once.
"""

from __future__ import annotations

import csv
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from qserver.client.errors import NotDoneError, ServerProblemError, ServerUnreachableError
from qserver.client.http import HttpClient, Reply, problem_of
from qserver.errors import ConfigError

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
class TextCall:
    """A GET whose reply is text and no JSON; it comes as the reply's `text`."""

    segments: tuple[str, ...]
    query: Mapping[str, str] | None = None

    def outcome(self, http: HttpClient) -> Reply | Failure:
        """The reply, or why there is none."""
        try:
            return Reply(http.get_text(*self.segments, query=self.query), {})
        except (ServerProblemError, ServerUnreachableError) as exc:
            return exc


@dataclass(frozen=True)
class FileCall:
    """A GET of CSV lines, which go to a file as they come.

    Args:
        path: the file; it is there when all of `n_records` have come, and not before.
    """

    segments: tuple[str, ...]
    query: Mapping[str, str]
    path: Path
    n_records: int

    def outcome(self, http: HttpClient) -> Reply | Failure:
        """An empty reply once the file is written, or why it is not."""
        part = self.path.with_name(self.path.name + ".part")
        try:
            try:
                with part.open("wb") as file:
                    file.writelines(http.chunks(*self.segments, query=self.query))
                with part.open(encoding="utf-8", newline="") as lines:
                    n = sum(1 for _ in csv.reader(lines)) - 1
                if n != self.n_records:
                    # A reply without a stated length may end early unseen.
                    raise ServerUnreachableError(f"The reply ended after {max(0, n):,} records.")
                part.replace(self.path)
            except OSError as exc:
                raise ConfigError("path", "be a file that can be written") from exc
            finally:
                part.unlink(missing_ok=True)
        except (ServerProblemError, ServerUnreachableError) as exc:
            return exc
        return Reply("", {})


@dataclass(frozen=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


Failure = ServerProblemError | ServerUnreachableError
AnyCall = Call | TextCall | FileCall
Step = AnyCall | Pause
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


def read_text(patience: Patience, *segments: str, **query: str) -> Flow[str]:
    """The text at a path."""
    return (yield from _tried(patience, TextCall(segments, query or None))).text


def written(
    patience: Patience, *segments: str, path: Path, n_records: int, query: Mapping[str, str]
) -> Flow[None]:
    """Return once the CSV lines at a path of the server are in a file."""
    yield from _tried(patience, FileCall(segments, query, path, n_records))


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


def _tried(patience: Patience, call: AnyCall) -> Flow[Reply]:
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
