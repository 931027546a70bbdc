"""The steps of a request to the server, without input or output; a driver carries them out.

A flow yields a step and receives its outcome, so that `Client` and `AsyncClient` share this code.
A question carries an idempotency key, made once per call. It may be sent again after a broken
connection or a refusal that asks for patience: the server answers and charges it once.
"""

from __future__ import annotations

import csv
import json
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from qserver.client.errors import NotDoneError, ServerProblemError, ServerUnreachableError
from qserver.client.http import HttpClient, Reply, problem_of
from qserver.errors import ConfigError

T = TypeVar("T")
U = TypeVar("U")
_FIRST_POLL_S = 0.1
_LONG_POLL_S = 5.0
_LONGEST_POLL_S = 2.0
_GROWTH = 1.5
_FIRST_RETRY_S = 0.2
_FIRST_SERVER_FAULT = 500
_ACCEPTED = 202


@dataclass(frozen=True)
class Call:
    """One HTTP request.

    Args:
        segments: parts of the path.
        document: the body of a POST; None makes it a GET.
        query: parameters of a GET.
        wait_s: seconds that the server may let a GET wait, as far as the client's own limit for a
            request allows.
    """

    segments: tuple[str, ...]
    document: Mapping[str, Any] | None = None
    query: Mapping[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0

    def reply(self, http: HttpClient) -> Reply:
        """The server's reply; raises as `HttpClient.get` does."""
        if self.document is None:
            wait_s = int(min(self.wait_s, http.timeout_s / 2))
            headers = {"Prefer": f"wait={wait_s}"} if wait_s else None
            return http.get(*self.segments, query=self.query, headers=headers)
        return http.post(*self.segments, document=self.document, headers=self.headers)


@dataclass(frozen=True)
class TextCall:
    """A GET whose reply is plain text; the reply's document has it as `text`."""

    segments: tuple[str, ...]
    query: Mapping[str, str] | None = None

    def reply(self, http: HttpClient) -> Reply:
        """The server's reply; raises as `HttpClient.get` does."""
        text = http.get_text(*self.segments, query=self.query)
        return Reply(text, {"text": text})


@dataclass(frozen=True)
class FileCall:
    """A GET of CSV lines, written to a file as they arrive.

    Args:
        path: the file; it exists only once all of the `n_records` have arrived.
    """

    segments: tuple[str, ...]
    query: Mapping[str, str]
    path: Path
    n_records: int

    def reply(self, http: HttpClient) -> Reply:
        """An empty reply once the file is written; raises as `HttpClient.get` does."""
        part = self.path.with_name(self.path.name + ".part")
        try:
            with part.open("wb") as file:
                file.writelines(http.chunks(*self.segments, query=self.query))
            with part.open(encoding="utf-8", newline="") as lines:
                n = sum(1 for _ in csv.reader(lines)) - 1
            if n != self.n_records:
                # If the reply does not state its length, an early end goes unnoticed.
                raise ServerUnreachableError(f"The reply ended after {max(0, n):,} records.")
            part.replace(self.path)
        except OSError as exc:
            raise ConfigError("path", "be a file that can be written") from exc
        finally:
            part.unlink(missing_ok=True)
        return Reply("", {})


@dataclass(frozen=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


Failure = ServerProblemError | ServerUnreachableError
AnyCall = Call | TextCall | FileCall
Step = AnyCall | Pause
Flow = Generator[Step, Any, T]


def outcome(call: AnyCall, http: HttpClient) -> Reply | Failure:
    """The reply to a call, or the error."""
    try:
        return call.reply(http)
    except (ServerProblemError, ServerUnreachableError) as exc:
        return exc


@dataclass(frozen=True)
class Patience:
    """How long and how often a client tries.

    Args:
        retries: how often a request is sent again at most.
        wait_s: longest wait for an answer in all, in seconds.
        clock: seconds, monotonic.
        new_key: makes idempotency keys.
        always_keyed: whether a question carries a key even if its steps send it only once. Without
            a key the server is quicker with a repeated question.
    """

    retries: int
    wait_s: float
    clock: Callable[[], float]
    new_key: Callable[[], str] = field(default=lambda: uuid.uuid4().hex)
    always_keyed: bool = True


def sent(patience: Patience, call: AnyCall) -> Flow[Reply]:
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


def all_datasets(patience: Patience, call: Call) -> Flow[Reply]:
    """One document with the datasets of every page."""
    found: list[Any] = []
    while True:
        page = (yield from sent(patience, call)).document
        found += page["datasets"]
        if page["next_after"] is None:
            return Reply("", {"datasets": found})
        call = replace(call, query={"after": page["next_after"]})


def answered(patience: Patience, call: Call) -> Flow[Reply]:
    """The answer to a question, from the reply itself or from its job.

    A store whose primary was lost may have forgotten a queued job. Nothing was charged for that,
    since a charge is on all replicas before anything is drawn, and the job with it: so the question
    is sent once more, under the same key.

    Raises:
        NotDoneError: the time is over; the job continues.
        ServerProblemError: the server refused, or the job failed.
    """
    deadline = patience.clock() + patience.wait_s
    call = keyed(patience, call) if patience.always_keyed else call
    for is_last in (False, True):
        reply = yield from sent(patience, call)
        if reply.status != _ACCEPTED:
            return reply
        try:
            result = yield from job_result(patience, reply.document, deadline)
        except ServerProblemError as exc:
            if is_last or exc.code != "not_found":
                raise
        else:
            return Reply(json.dumps(result), result)
    raise AssertionError("The last try returns or raises.")


def answered_again(patience: Patience, call: Call) -> Flow[Reply]:
    """The answer to a question whose job holds only a part of it, such as a statement of SQL.

    The question is sent again under the same key once its job is done. That costs nothing.
    Raises as `answered` does.
    """
    call = keyed(patience, call)
    deadline = patience.clock() + patience.wait_s
    reply = yield from sent(patience, call)
    while reply.status == _ACCEPTED:
        yield from job_result(patience, reply.document, deadline)
        reply = yield from sent(patience, call)
    return reply


@dataclass(frozen=True)
class Exchange(Generic[T]):
    """One request of a client, and how to read its reply.

    Args:
        call: the HTTP request.
        read: makes the result from the reply's document.
        steps: how to get the reply: `sent`, `answered`, `answered_again` or `all_datasets`.
    """

    call: AnyCall
    read: Callable[[Mapping[str, Any]], T]
    steps: Callable[[Patience, Any], Flow[Reply]] = sent

    def explained(self, read: Callable[[Mapping[str, Any]], U]) -> Exchange[U]:
        """The same request, sent to the route of its price; spends nothing."""
        *head, last = self.call.segments
        path = (*head, "explain") if last == "query" else (*head, last, "explain")
        return Exchange(replace(self.call, segments=path), read)

    @property
    def may_take_long(self) -> bool:
        """Whether the reply may be a job."""
        return self.steps in (answered, answered_again)


def keyed(patience: Patience, call: Call) -> Call:
    """The call with a new key, so that it may be sent again."""
    return replace(call, headers={"Idempotency-Key": patience.new_key()})


def job_result(
    patience: Patience, job: Mapping[str, Any], deadline: float
) -> Flow[Mapping[str, Any]]:
    """The result of a finished job. Raises as `answered`."""
    pause_s = _FIRST_POLL_S
    while job["state"] in ("queued", "running"):
        if patience.clock() + pause_s > deadline:
            raise NotDoneError(
                f"The answer is not ready yet (job {job['id']}). Ask again: whatever is measured "
                "meanwhile is answered at no cost.",
                job=str(job["id"]),
            )
        yield Pause(pause_s)
        pause_s = min(_LONGEST_POLL_S, pause_s * _GROWTH)
        # A server that cannot let it wait replies at once; hence the pauses.
        left_s = min(_LONG_POLL_S, deadline - patience.clock())
        call = Call(("v1", "jobs", str(job["id"])), wait_s=left_s)
        job = (yield from sent(patience, call)).document
    result = job.get("result")
    if not isinstance(result, Mapping):
        raise problem_of(job.get("problem") or {})
    return result


def _may_pass(error: Failure) -> bool:
    """Whether to send again: no server answers, it asks for time, or a proxy lost the reply."""
    if isinstance(error, ServerUnreachableError) or error.retry_after_s is not None:
        return True
    return error.code == "bad_reply" and (error.status or 0) >= _FIRST_SERVER_FAULT
