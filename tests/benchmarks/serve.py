"""Answers from history over real HTTP, beside a bare JSON echo on the same stack in the same run.

gunicorn with the default settings, a durable store, a history of ranges on a third as many cuts
as rows, written by the spending scripts. Repeated questions are sent again byte for byte; a new
question was never sent before. The load comes from another process over keep-alive connections.

`echo` is a bare Flask app that parses and returns the same JSON. Rates are with 8 connections: echo
and repeated questions take turns for 7 rounds of 1,000 requests, medians are shown. Times are with
one connection. A new question costs the search for the weights of the shortest interval, and one
durable write that keeps them.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median

from qserver.config import Settings
from qserver.ledger.cell_ledger import CellLedger
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import LinearQuery, total_query
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.charge import Charge, Standing, charge_json
from qserver.records.dataset import DatasetMeta
from qserver.records.plan import PlannedRow
from qserver.storage.charging import Charging, Publishing
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.queue import Ended, Outcome, Taken
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.spend import SpendingStore

from .blue import connected, ends_of
from .load import Plan, generate, repeated
from .stack import Site, echoing, serving
from .tables import Report, Value
from .workloads import QuerySource, different, measurements_of

SIZES = (10, 100, 1000, 5000)
QUICK_SIZES = (10,)
SEED = 20_240_503
N_REPEATED = 20
CONNECTIONS = 8
SIZE = 10_000
REQUIREMENT = Requirement(2000.0, 0.95)
LIMIT_NANO = 10**15
_JOB_ROWS = 500
_MAX_WARM_ROUNDS = 12
_PATH = "/v1/datasets/line/query"
_EDGES = tuple(map(Fraction, range(SIZE + 1)))
_DOMAIN = Domain((Attribute("position", "integer", edges=_EDGES),))
_META = DatasetMeta("line", "line", "s1", _DOMAIN, "add-remove", 1, records_verified=False)


@dataclass(frozen=True)
class Amounts:
    """Requests per measurement: per round for the rate (all connections), for times (one)."""

    rounds: int
    rate: int
    times: int
    new: int


FULL = Amounts(rounds=7, rate=1000, times=1000, new=300)
QUICK = Amounts(rounds=2, rate=40, times=40, new=20)


def run(*, quick: bool) -> Report:
    """Rates and times of repeated and new questions, by length of the history."""
    amounts = QUICK if quick else FULL
    rows = [_row(n_rows, amounts) for n_rows in (QUICK_SIZES if quick else SIZES)]
    settings = Settings(open_access=True)
    return Report(
        name="serve",
        title="Answers from history over HTTP: requests per second and wall-clock times",
        parameters={
            "connections": CONNECTIONS,
            "http_workers": settings.http_workers,
            "http_threads": settings.http_threads,
            "rounds_for_rate": amounts.rounds,
            "requests_per_round": amounts.rate,
            "requests_for_times": amounts.times,
            "new_questions": amounts.new,
            "seed": SEED,
        },
        rows=tuple(rows),
    )


def _row(n_rows: int, amounts: Amounts) -> dict[str, Value]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedServer.start(folder / "state"))
        settings = Settings(redis_url=server.url, state_dir=folder / "state", open_access=True)
        questions = _fill(SpendingStore.open(settings), n_rows, 2 * amounts.new + N_REPEATED)
        site = stack.enter_context(serving(settings, log=folder / "http.log"))
        echo = stack.enter_context(echoing(settings, log=folder / "echo.log"))
        return _measure(site, echo, n_rows, questions, amounts)


def _measure(
    site: Site, echo: Site, n_rows: int, questions: Sequence[str], amounts: Amounts
) -> dict[str, Value]:
    often, fresh = questions[:N_REPEATED], questions[N_REPEATED:]
    _warm(site, _PATH, often)
    _warm(echo, "/", often)
    many, few = repeated(often, amounts.rate), repeated(often, amounts.times)
    # In turns, so that what else the machine does falls on both.
    rounds = [
        (
            generate(Plan(echo.port, "/", many, CONNECTIONS)),
            generate(Plan(site.port, _PATH, many, CONNECTIONS)),
        )
        for _ in range(amounts.rounds)
    ]
    echo_times = generate(Plan(echo.port, "/", few, 1)).times
    times = generate(Plan(site.port, _PATH, few, 1)).times
    new = generate(Plan(site.port, _PATH, tuple(fresh[: amounts.new]), 1))
    new_rate = generate(Plan(site.port, _PATH, tuple(fresh[amounts.new :]), CONNECTIONS))
    answers = [*(own for _, own in rounds), new, new_rate]
    free = sum(o.sources.get("history", 0) for o in answers)
    return {
        "rows": n_rows,
        "echo_per_s": median(other.rate for other, _ in rounds),
        "repeated_per_s": median(own.rate for _, own in rounds),
        "repeated_share": median(own.rate / other.rate for other, own in rounds),
        "echo_p50_ms": echo_times.median_ms,
        "repeated_p50_ms": times.median_ms,
        "repeated_p99_ms": times.quantile_ms(0.99),
        "new_per_s": new_rate.rate,
        "new_p50_ms": new.times.median_ms,
        "new_p99_ms": new.times.quantile_ms(0.99),
        "from_history_percent": 100.0 * free / sum(len(o.seconds) for o in answers),
    }


def _warm(site: Site, path: str, bodies: Sequence[str]) -> None:
    """Ask until every process has read the history and kept the repeated answers.

    A process that has not makes up to 20 of the 320 answers of a round slow.
    """
    for _ in range(_MAX_WARM_ROUNDS):
        times = generate(Plan(site.port, path, repeated(bodies, 16 * N_REPEATED), 16)).times
        if times.quantile_ms(0.97) < 5 * times.median_ms:
            return


def _fill(store: SpendingStore, n_rows: int, n_questions: int) -> list[str]:
    """Give the store a history; bodies of different questions that it answers."""
    source = QuerySource.seeded(_DOMAIN.sizes, SEED)
    cuts = [source.breakpoints(n_rows // 3 + 2)]
    drawn = [source.box(cuts) for _ in range(n_rows)]
    _measure_all(store, drawn)
    if n_rows < 1000:
        # Few cuts have few ranges: sums of two with other coefficients are new questions too.
        pairs = [source.generator.sample(drawn, 2) for _ in range(n_questions)]
        return [_pair_body(*pair, coefficient=i + 2) for i, pair in enumerate(pairs)]
    others = [source.box(cuts) for _ in range(4 * n_questions)]
    return [_body(q) for q in connected(drawn, different(others, 2 * n_questions))][:n_questions]


def _measure_all(store: SpendingStore, queries: Sequence[LinearQuery]) -> None:
    """Charge and publish rows for these queries, as a worker would, hundreds to a job."""
    store.attach(_META, limit_nano=LIMIT_NANO)
    lease = store.acquire(_META.population)
    if lease is None:
        raise RuntimeError("The lease of a new store must be free.")
    measured = measurements_of(queries, seed=SEED)
    ledger = CellLedger(_DOMAIN.sizes)
    request = Request(_META.name, _META.snapshot, Question(total_query(_DOMAIN.sizes), REQUIREMENT))
    for version, start in enumerate(range(0, len(measured), _JOB_ROWS)):
        part = measured[start : start + _JOB_ROWS]
        job = f"{_META.population}~{version}"
        rows = tuple(PlannedRow(m.row, m.key, m.alpha_nano, m.step) for m in part)
        charges = [Charge(m.row, m.alpha_nano, job) for m in part]
        before = ledger.spent_nano
        after = ledger.spent_after(charges)
        ledger.extend(charges)
        reservation = Reservation(job, request, rows, _alone(before), _alone(after), start)
        texts = [charge_json(c, snapshot=_META.snapshot, at=0) for c in charges]
        store.reserve(lease, [Charging(reservation, texts)], ledger_version=version)
        store.publish(lease, [Publishing(reservation, [(m.index,) for m in part])])
        shown = Outcome("done", "", _META.snapshot, start + len(part), 0)
        store.acknowledge([Ended(Taken(_META.population, job, "", _META.name), shown)])
    store.release(lease)


def _alone(spent_nano: int) -> Standing:
    return Standing.alone(limit_nano=LIMIT_NANO, spent_nano=spent_nano)


def _where(query: LinearQuery) -> dict[str, object]:
    low, high = ends_of(query)
    return {"where": {"position": {"between": [low, high - 1]}}}


def _body(query: LinearQuery) -> str:
    return _question(_where(query))


def _pair_body(first: LinearQuery, second: LinearQuery, *, coefficient: int) -> str:
    terms = [_where(first), {"coefficient": coefficient, **_where(second)}]
    return _question({"terms": terms})


def _question(query: dict[str, object]) -> str:
    requirement = {"length": 2000 if "where" in query else 1e9, "confidence": 0.95}
    return json.dumps({"query": query, **requirement})
