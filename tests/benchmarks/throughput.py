"""New questions on the demo's data by many clients at once: measured answers a second.

`python -m tests.benchmarks.throughput`, on a quiet machine; it prints a table and keeps nothing.

The Adult data, attached by the worker; an embedded store that syncs every write to disk; a required
witness; gunicorn with the default settings, but for a longer wait. Every question is another one
and every answer is measured. The load comes from one more process.

Where the machine has two processors or more, a second run keeps the worker and the store on one of
them, and HTTP and the clients on another.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from qserver.cli.local.demo import adult_csv, adult_domain
from qserver.config import Settings
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store

from .load import Plan, generate
from .stack import attach, serving, working
from .tables import Report, Value, table_text

SEED = 20_261_123
N_QUESTIONS = 200
N_WARM = 20
CONNECTIONS = 16
LIMIT = "1000"
WAIT_S = 50.0
_PATH = "/v1/datasets/adult/query"
_LABELS = {
    "sex": ("Female", "Male"),
    "race": ("White", "Black", "Asian-Pac-Islander"),
    "income": ("<=50K", ">50K"),
}


def measured(n_questions: int) -> Report:
    """Answers a second, on all processors and with worker and store on one of them."""
    cores = sorted(os.sched_getaffinity(0))
    places = [("all", set(cores), set(cores))]
    if len(cores) > 1:
        places.append(("worker apart", {cores[0]}, {cores[1]}))
    rows = [
        {"processors": name, **_row(worker, others, n_questions)} for name, worker, others in places
    ]
    return Report(
        name="throughput",
        title="New questions by many clients at once: measured answers a second",
        parameters={
            "questions": n_questions,
            "connections": CONNECTIONS,
            "seed": SEED,
            "store": "embedded, appendonly yes, appendfsync always",
            "witness": "required",
        },
        rows=tuple(rows),
    )


def _row(worker: set[int], others: set[int], n_questions: int) -> dict[str, Value]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with _on(worker):
            server = stack.enter_context(EmbeddedServer.start(folder / "state"))
            settings = _settings(server, folder)
            _attach(settings, folder)
            store = Store.open(settings)
            alive = lambda: store.worker_alive("adult")  # noqa: E731
            stack.enter_context(working(settings, log=folder / "worker.log", alive=alive))
        stack.enter_context(_on(others))
        site = stack.enter_context(serving(settings, log=folder / "http.log"))
        questions = _questions(N_WARM + n_questions)
        generate(Plan(site.port, _PATH, questions[:N_WARM], CONNECTIONS))
        before = store.stamp(store.meta("adult")).budget.version
        found = generate(Plan(site.port, _PATH, questions[N_WARM:], CONNECTIONS))
        after = store.stamp(store.meta("adult")).budget.version
    return {
        "per_s": found.rate,
        "p50_ms": found.times.median_ms,
        "p99_ms": found.times.quantile_ms(0.99),
        "charged_percent": 100.0 * (after - before) / n_questions,
    }


def _settings(server: EmbeddedServer, folder: Path) -> Settings:
    witness = folder / "witness"
    witness.mkdir()
    return Settings(
        redis_url=server.url,
        state_dir=folder / "state",
        witness=str(witness),
        wait_s=WAIT_S,
        open_access=True,
    )


def _attach(settings: Settings, folder: Path) -> None:
    data = ("--data", str(adult_csv()), "--domain", str(adult_domain()))
    bounds = ("--limit", LIMIT)
    attach(settings, "adult", *data, *bounds, log=folder / "attach.log")


@contextlib.contextmanager
def _on(cores: set[int]) -> Iterator[None]:
    """Start processes on these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _questions(n: int) -> tuple[str, ...]:
    """Different counts on three attributes; history answers none of them."""
    generator, found = random.Random(SEED), dict[str, None]()
    while len(found) < n:
        low, high = sorted(generator.sample(range(17, 91), 2))
        least, most = sorted(generator.sample(range(1, 100), 2))
        name = generator.choice(list(_LABELS))
        where = {
            "age": {"between": [low, high]},
            "hours-per-week": {"between": [least, most]},
            name: generator.choice(_LABELS[name]),
        }
        body = {"query": {"where": where}, "length": 400, "confidence": 0.95}
        found[json.dumps(body)] = None
    return tuple(found)


if __name__ == "__main__":
    found = measured(N_QUESTIONS)
    print(f"{found.title}\n\n{table_text(found.rows)}")
