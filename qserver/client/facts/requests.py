"""The requests for what may be looked up; none of them asks for anything new."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from inspect import signature
from typing import Any, ParamSpec

from qserver.client import requests
from qserver.client.facts.posterior import Posterior, check_points, tails
from qserver.client.facts.results import Budget, History, Job, Released
from qserver.client.flows import Call, Exchange, Flow, Patience, job_result, keyed, sent
from qserver.client.http import Reply
from qserver.client.requests import Query, path_of
from qserver.client.results import Answer
from qserver.errors import ConfigError

P = ParamSpec("P")
# Every price has a length in it; the interval that costs nothing has the same ends at any.
_ANY_LENGTH = 1e15
_PAGE = 1000
_ACCEPTED = 202


def budget(
    dataset: str, *, attribute: str | None = None, where: Mapping[str, Any] | None = None
) -> Exchange[Budget]:
    """Where the budget went; with `attribute`, the loss by its values.

    With `where`, as a structured query has it, only the records that it keeps are looked at.
    """
    exchange = requests.ledger(dataset, attribute=attribute, where=where)
    asked = {"dataset": dataset, "attribute": attribute}
    return Exchange(exchange.call, lambda found: Budget.of({**found, **asked}))


def history(dataset: str, *, after: int = -1, snapshot: str | None = None) -> Exchange[History]:
    """The rows and tables that were released, after that of an id; they are public.

    With `snapshot` it is the history of an earlier state of the data.
    """
    query = {"after": str(after), "limit": str(_PAGE)} | _of(snapshot)
    return Exchange(Call(path_of(dataset, "history"), query=query), History.of, _all_pages)


def released(dataset: str, row: int, *, snapshot: str | None = None) -> Exchange[Released]:
    """One row or table with all its values, by its id in the history."""
    call = Call(path_of(dataset, "history", str(row)), query=_of(snapshot) or None)
    return Exchange(call, Released.of)


def job(job_id: str, *, wait_s: float = 0.0) -> Exchange[Job]:
    """A job as it is now, or as it is when it ends within `wait_s` seconds."""
    return Exchange(Call(("v1", "jobs", job_id), wait_s=wait_s), Job.of)


def result(job: Job) -> Exchange[Answer]:
    """The answer of a job that `submit` gave, once it is there.

    A job that failed raises its error.
    """
    return Exchange(Call(("v1", "jobs", job.id or "")), Answer.of, partial(_answered, job))


def posterior(
    dataset: str,
    query: Query,
    *,
    confidence: float = 0.95,
    points: int = 65,
    as_of: str | None = None,
) -> Exchange[Posterior]:
    """How probable each value of a question is, by history alone; spends nothing.

    It takes a request for each of `points` values, about the interval that costs nothing. `as_of`
    is as in `query`. NotEstimableError: history says nothing of it.
    """
    check_points(points)
    price = requests.explain(dataset, query, length=_ANY_LENGTH, confidence=confidence, as_of=as_of)
    return Exchange(price.call, Posterior.of, partial(tails, points=points))


def submitted(make: Callable[P, Exchange[Answer]]) -> Callable[P, Exchange[Job]]:
    """The function, with the same arguments, whose exchange does not wait for the answer."""

    @wraps(make)
    def submit(*args: P.args, **kwargs: P.kwargs) -> Exchange[Job]:
        return Exchange(make(*args, **kwargs).call, Job.of, _submitted)

    submit.__doc__ = """Ask as `query` does, with the same arguments, and do not wait.

    The job has an `answer` at once where nothing had to be measured; `result` waits for others.
    """
    submit.__signature__ = signature(make).replace(  # type: ignore[attr-defined]
        return_annotation="Exchange[Job]"
    )
    return submit


submit = submitted(requests.query)


def _of(snapshot: str | None) -> dict[str, str]:
    return {} if snapshot is None else {"snapshot": snapshot}


def _all_pages(patience: Patience, call: Call) -> Flow[Reply]:
    """One document with the rows of every page, and the newest version."""
    rows: list[Any] = []
    while True:
        page = (yield from sent(patience, call)).document
        rows += page["rows"]
        if page["next_after"] is None:
            return Reply("", {"rows": rows, "version": page["version"]})
        call = replace(call, query={**(call.query or {}), "after": str(page["next_after"])})


def _submitted(patience: Patience, call: Call) -> Flow[Reply]:
    """The job of a question; an answer that is there at once is one that is done."""
    call = keyed(patience, call)
    call = replace(call, headers={**call.headers, "Prefer": "respond-async"})
    reply = yield from sent(patience, call)
    if reply.status == _ACCEPTED:
        return reply
    done = {"id": None, "state": "done", "dataset": call.segments[2], "result": reply.document}
    return Reply(reply.text, done)


def _answered(job: Job, patience: Patience, call: Call) -> Flow[Reply]:  # noqa: ARG001
    """The answer of a job; one that has it asks nothing."""
    deadline = patience.clock() + patience.wait_s
    found = yield from job_result(patience, job.document, deadline)
    if "estimate" not in found:
        hint = "Ask what it is about again: that costs nothing."
        raise ConfigError("job", "be of one question, as `submit` gives it", hint=hint)
    return Reply("", found)
