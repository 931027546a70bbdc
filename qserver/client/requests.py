"""The requests of a client: each function makes the exchange of one method of `Client`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from qserver.client.flows import (
    Call,
    Exchange,
    Flow,
    Patience,
    all_datasets,
    answered,
    answered_again,
    job_result,
    keyed,
    sent,
)
from qserver.client.http import Reply
from qserver.client.lookups import Budget, History, Job, Posterior, Released, check_points, tails
from qserver.client.results import Answer, DatasetInfo, FromJson, Price, Probability
from qserver.client.tables import Table
from qserver.errors import ConfigError
from qserver.query import request_fields as fields
from qserver.query.asking.after_looking import Selection
from qserver.query.asking.method_and_prior import Method
from qserver.query.requirement import Measure
from qserver.query.sql.text import dataset_of, explains
from qserver.records.codec import plain

P = ParamSpec("P")
PriceResult = TypeVar("PriceResult", bound=FromJson)
Query = Mapping[str, Any] | str
"""The structured form of a question, or a text of SQL that says what to count."""
ChosenAmong = Selection | Mapping[str, Any]
"""A choice among numbers that were looked at, such as `{"m": 64, "rule": "largest"}`."""
Known = str | Mapping[str, Sequence[float]]
"""A prior: "non-negative", "known-total" or `{"between": (a, b)}`."""


def path_of(dataset: str, *more: str) -> tuple[str, ...]:
    """The path of a dataset, or of something below it."""
    return ("v1", "datasets", dataset, *more)


def datasets() -> Exchange[list[DatasetInfo]]:
    """All datasets by name."""
    return Exchange(
        Call(("v1", "datasets")),
        lambda found: list(map(DatasetInfo.of, found["datasets"])),
        all_datasets,
    )


def dataset(name: str) -> Exchange[DatasetInfo]:
    """One dataset with its attributes."""
    return Exchange(Call(path_of(name)), DatasetInfo.of)


_USUAL = {
    field.name: field.default for field in (*fields.QUESTION, fields.CONSISTENT, fields.SPEND)
}


def said(**members: Any) -> dict[str, Any]:
    """The given members of a request: earlier servers know nothing of others."""
    return {
        name: dict(value) if isinstance(value, Mapping) else plain(value)
        for name, value in members.items()
        if value is not None and value != _USUAL.get(name)
    }


def query(
    dataset: str,
    query: Query,
    *,
    length: float,
    confidence: float = 0.95,
    measure: Measure | None = None,
    selected_from: ChosenAmong | None = None,
    independent: bool = False,
    method: Method = "auto",
    step: float | None = None,
    draws: int | None = None,
    error: float | None = None,
    prior: Known | None = None,
    as_of: str | None = None,
) -> Exchange[Answer]:
    """The answer of a linear counting query, with an interval of at most `length`.

    With `measure="only_this"` nothing is measured for later questions; with "auto" the planner may
    buy tables that these use too. By default the dataset's owner decides.

    For a number that was picked out, `selected_from=Selection(64, "largest")` says among how many
    and how: the interval then holds after such a choice and is longer, at the same price.
    `independent=True` measures anew with fresh noise, and is charged each time.

    `method="convolution"` (with a `step`) and "monte-carlo" (with `draws`) compute probabilities
    otherwise, and `error` asks for a smaller numerical error, at the same price. Under a `prior`
    ("non-negative", "known-total" or `{"between": (a, b)}`) the answer is a Bayesian statement, and
    no frequency.

    Where data arrive over time, `as_of` names the last period to count; by default the last sealed.
    """
    document = {"query": query, "length": length, "confidence": confidence} | said(
        as_of=as_of,
        measure=measure,
        independent=independent,
        selected_from=selected_from,
        method=method,
        step=step,
        draws=draws,
        error=error,
        prior=prior,
    )
    return Exchange(Call(path_of(dataset, "query"), document), Answer.of, answered)


def priced(
    make: Callable[P, Exchange[Any]], kind: type[PriceResult]
) -> Callable[P, Exchange[PriceResult]]:
    """The function, with the same arguments, whose exchange asks for the price alone."""

    @wraps(make)
    def price(*args: P.args, **kwargs: P.kwargs) -> Exchange[PriceResult]:
        return make(*args, **kwargs).explained(kind.of)

    price.__doc__ = f"The price of `{make.__name__}`, with the same arguments; spends nothing."
    shown = signature(make).replace(return_annotation=f"Exchange[{kind.__name__}]")
    price.__signature__ = shown  # type: ignore[attr-defined]
    return price


explain = priced(query, Price)


def probability(
    dataset: str,
    query: Query,
    *,
    at_least: float | None = None,
    between: tuple[float, float] | None = None,
    method: Method = "auto",
    step: float | None = None,
    draws: int | None = None,
    error: float | None = None,
    prior: Known | None = None,
    as_of: str | None = None,
) -> Exchange[Probability]:
    """P(q >= at_least), or P(a <= q <= b), from history alone; spends nothing.

    It is read as `query` reads an answer; its `statement` says how.
    """
    if (at_least is None) == (between is None):
        raise ConfigError("at_least", "be given, or else `between`, but not both")
    bound = {"between": list(between)} if between is not None else {"at_least": at_least}
    read = said(method=method, step=step, draws=draws, error=error, prior=prior, as_of=as_of)
    call = Call(path_of(dataset, "probability"), {"query": query, **bound, **read})
    return Exchange(call, Probability.from_plain)


def workload(
    dataset: str,
    queries: Sequence[Query] | Mapping[str, Query],
    *,
    length: float,
    confidence: float = 0.95,
    simultaneous: bool = False,
    consistent: bool = False,
    measure: Measure | None = None,
    selected_from: ChosenAmong | None = None,
    as_of: str | None = None,
) -> Exchange[Table]:
    """Many answers, planned, paid and measured as one; a row per query, by name if given.

    With `selected_from` all intervals allow for a choice among the answers; without it the table
    has readings for that as well (`Table.largest`).

    With `consistent` each cell also has its value by one non-negative table, at no charge. A
    workload buys nothing for other questions, whatever `measure` says.
    """
    by_name = (
        dict(queries)
        if isinstance(queries, Mapping)
        else {str(i): query for i, query in enumerate(queries)}
    )
    document: dict[str, Any] = {
        "questions": [{"query": query} for query in by_name.values()],
        "length": length,
        "confidence": confidence,
        "simultaneous": simultaneous,
        **said(as_of=as_of, consistent=consistent, measure=measure, selected_from=selected_from),
    }
    return Exchange(
        Call(path_of(dataset, "workload"), document),
        lambda found: Table.of_workload(found, tuple(by_name)),
        # The result of a job has no consistent values.
        answered_again if consistent else answered,
    )


def ledger(
    dataset: str, *, attribute: str | None, where: Mapping[str, Any] | None
) -> Exchange[Mapping[str, Any]]:
    """The ledger of a dataset; with the loss of the records of `where`, by value of `attribute`."""
    query = {"attribute": attribute} if attribute else {}
    if where:
        query["where"] = json.dumps(where)
    return Exchange(Call(path_of(dataset, "ledger"), query=query or None), lambda found: found)


def sql(
    text: str,
    *,
    dataset: str | None = None,
    measure: Measure | None = None,
    as_of: str | None = None,
    within: float | None = None,
    confidence: float | None = None,
    spend: bool = True,
) -> Exchange[Table]:
    """The table that a statement asks for, of `dataset`; by default the one in its FROM.

    `within` and `confidence` hold where the text has no WITHIN, or no CONFIDENCE. Without any it is
    answered from history alone, or BudgetProblemError has its price (`unconfirmed`). With
    `spend=False` that holds for every statement.
    ONLY THIS at its end goes before `measure`, which is as in `query`. AS LARGEST OF m and
    INDEPENDENT are said in the text. `as_of` is as in `query`.
    """
    if explains(text):
        raise ConfigError("text", "have no EXPLAIN", hint="`price` tells what it would cost.")
    asked = said(measure=measure, as_of=as_of, within=within, confidence=confidence, spend=spend)
    call = Call(path_of(dataset or dataset_of(text), "sql"), {"sql": text, **asked})
    return Exchange(call, lambda found: Table.of(found["table"]), answered_again)


def price(
    text: str,
    *,
    dataset: str | None = None,
    measure: Measure | None = None,
    as_of: str | None = None,
    within: float | None = None,
    confidence: float | None = None,
) -> Exchange[Price]:
    """The price of a statement, with or without EXPLAIN before it; spends nothing."""
    # The text is sent unchanged: a refusal points at places in it.
    asked = said(measure=measure, as_of=as_of, within=within, confidence=confidence)
    call = Call(
        path_of(dataset or dataset_of(text), "sql"), {"sql": text, "explain": True, **asked}
    )
    return Exchange(call, lambda found: Price.of(found["price"]), answered_again)


# Every price has a length; the free interval has the same ends at any length.
_ANY_LENGTH = 1e15
_PAGE = 1000
_ACCEPTED = 202


def budget(
    dataset: str, *, attribute: str | None = None, where: Mapping[str, Any] | None = None
) -> Exchange[Budget]:
    """Where the budget went; with `attribute`, the loss by its values.

    With `where`, as a structured query has it, only the records that it keeps are looked at.
    """
    exchange = ledger(dataset, attribute=attribute, where=where)
    asked = {"dataset": dataset, "attribute": attribute}
    return Exchange(exchange.call, lambda found: Budget.of({**found, **asked}))


def history(dataset: str, *, after: int = -1, snapshot: str | None = None) -> Exchange[History]:
    """The rows and tables that were released, after that of an id; they are public.

    With `snapshot` it is the history of an earlier snapshot.
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
    price = explain(dataset, query, length=_ANY_LENGTH, confidence=confidence, as_of=as_of)
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


submit = submitted(query)


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
    """The job of a question; an immediate answer makes a finished job."""
    call = keyed(patience, call)
    call = replace(call, headers={**call.headers, "Prefer": "respond-async"})
    reply = yield from sent(patience, call)
    if reply.status == _ACCEPTED:
        return reply
    done = {"id": None, "state": "done", "dataset": call.segments[2], "result": reply.document}
    return Reply(reply.text, done)


def _answered(job: Job, patience: Patience, call: Call) -> Flow[Reply]:  # noqa: ARG001
    """The answer of a job; without a request if the job already holds it."""
    deadline = patience.clock() + patience.wait_s
    found = yield from job_result(patience, job.document, deadline)
    if "estimate" not in found:
        hint = "Ask what it is about again: that costs nothing."
        raise ConfigError("job", "be of one question, as `submit` gives it", hint=hint)
    return Reply("", found)
