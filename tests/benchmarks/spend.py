"""From a question over HTTP to its measured answer: wall-clock time, everything durable.

A table of a million synthetic records in Parquet, attached by the worker; an embedded store that
syncs every write to disk; gunicorn with the default settings. Every question is new and every
answer is measured. The publication slot is a setting, so both ends of it are shown.

The time runs from the request's first byte to the answer's last: queueing, plan, durable
reservation, journal, full scan, exact noise, journal again, durable publication, answer.
"""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
from pathlib import Path

import duckdb

from qserver.config import Settings
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store

from .load import Outcome, Plan, generate
from .stack import Site, attach, serving, working
from .tables import Report, Value

SEED = 20_240_504
N_RECORDS = 1_000_000
N_QUESTIONS = 200
N_WARM = 10
SLOTS_MS = (5, 10, 0)
CONNECTIONS = 4
LIMIT = "1000"
_PATH = "/v1/datasets/people/query"
REGIONS = tuple(f"region {i}" for i in range(50))
_DOMAIN = {
    "attributes": [
        {"name": "age", "kind": "integer", "range": [0, 99], "width": 1},
        {"name": "sex", "kind": "labels", "labels": ["Female", "Male"]},
        {"name": "region", "kind": "labels", "labels": list(REGIONS)},
        {"name": "income", "kind": "integer", "range": [0, 199], "width": 1},
    ]
}


def run(*, quick: bool) -> Report:
    """Times of measured answers, one at a time and several at once, by publication slot."""
    n_records = 20_000 if quick else N_RECORDS
    n_questions = 10 if quick else N_QUESTIONS
    slots = SLOTS_MS[:1] if quick else SLOTS_MS
    rows = [r for slot in slots for r in _rows(slot, n_records, n_questions)]
    return Report(
        name="spend",
        title="From a question over HTTP to its measured answer: wall-clock times",
        parameters={
            "records": n_records,
            "questions": n_questions,
            "seed": SEED,
            "store": "embedded, appendonly yes, appendfsync always",
            "workers": 1,
        },
        rows=tuple(rows),
    )


def _rows(slot_ms: int, n_records: int, n_questions: int) -> list[dict[str, Value]]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedServer.start(folder / "state"))
        settings = Settings(
            redis_url=server.url,
            state_dir=folder / "state",
            slot_ms=slot_ms,
            open_access=True,
        )
        _attach(settings, folder, n_records)
        store = Store.open(settings)
        worker_log = folder / "worker.log"
        alive = lambda: store.worker_alive("people")  # noqa: E731
        stack.enter_context(working(settings, log=worker_log, alive=alive))
        site = stack.enter_context(serving(settings, log=folder / "http.log"))
        questions = _questions(N_WARM + 2 * n_questions)
        _ask(site, questions[:N_WARM], 1)
        alone = _ask(site, questions[N_WARM : N_WARM + n_questions], 1)
        together = _ask(site, questions[N_WARM + n_questions :], CONNECTIONS)
    return [
        _row(alone, slot_ms, connections=1),
        _row(together, slot_ms, connections=CONNECTIONS),
    ]


def _row(outcome: Outcome, slot_ms: int, *, connections: int) -> dict[str, Value]:
    times = outcome.times
    return {
        "slot_ms": slot_ms,
        "connections": connections,
        "p50_ms": times.median_ms,
        "p90_ms": times.quantile_ms(0.9),
        "p99_ms": times.quantile_ms(0.99),
        "per_s": outcome.rate,
        "measured_percent": 100.0 * outcome.sources.get("measured", 0) / len(outcome.seconds),
    }


def _ask(site: Site, questions: list[str], n_connections: int) -> Outcome:
    return generate(Plan(site.port, _PATH, tuple(questions), n_connections))


def _attach(settings: Settings, folder: Path, n_records: int) -> None:
    data, domain = folder / "people.parquet", folder / "people.json"
    domain.write_text(json.dumps(_DOMAIN), encoding="utf-8")
    with duckdb.connect(":memory:") as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(
            "COPY (SELECT CAST(100 * random() * random() AS INTEGER) % 100 AS age,"
            " CASE WHEN random() < 0.5 THEN 'Female' ELSE 'Male' END AS sex,"
            " 'region ' || CAST(floor(50 * random()) AS INTEGER) AS region,"
            " CAST(floor(200 * random() * random()) AS INTEGER) AS income"
            f" FROM range({n_records})) TO '{data}' (FORMAT parquet)"
        )
    arguments = ("people", "--data", str(data), "--domain", str(domain), "--limit", LIMIT)
    attach(settings, *arguments, log=folder / "attach.log")


def _questions(n: int) -> list[str]:
    """Different counts on three attributes; history answers none of them."""
    generator = random.Random(SEED)
    found = []
    for _ in range(n):
        low, high = sorted(generator.sample(range(100), 2))
        poorest, richest = sorted(generator.sample(range(200), 2))
        where = {
            "age": {"between": [low, high]},
            "income": {"between": [poorest, richest]},
            "region": generator.sample(REGIONS, generator.randint(5, 25)),
        }
        found.append(json.dumps({"query": {"where": where}, "length": 2000, "confidence": 0.95}))
    return found
