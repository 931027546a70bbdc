"""What the median age of Adult costs, over HTTP with the worker's noise.

Each run is a dataset of its own with the same records, so that nothing is known beforehand.
at_most: what EXPLAIN says before. again: what the other quartiles cost afterwards, within four
years, in the median. held: the runs whose interval holds the median, which is 37.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from qserver.cli.local.demo import adult_csv, adult_domain
from qserver.client import Cell, Client
from qserver.config import LOOPBACK, Settings
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store

from .stack import attach, serving, working
from .tables import Report, Value

N_RUNS, N_QUICK = 12, 1
WITHIN = (1.0, 0.5)
AT_LEAST = 20_000
TRUTH = 37.0


def run(*, quick: bool) -> Report:
    """Costs and intervals by the half-width that is asked."""
    n_runs = N_QUICK if quick else N_RUNS
    names = [f"adult-{i}" for i in range(n_runs * len(WITHIN))]
    with _running(names) as client:
        rows = [
            _row(client, names[i * n_runs : (i + 1) * n_runs], within)
            for i, within in enumerate(WITHIN)
        ]
    return Report(
        name="adult_median",
        title="Epsilon that the median age of Adult costs",
        parameters={"confidence": 0.95, "at_least": AT_LEAST, "noise": "the worker's"},
        rows=tuple(rows),
    )


def _row(client: Client, names: list[str], within: float) -> dict[str, Value]:
    costs, most, again, halves, held = list[float](), list[float](), list[float](), list[float](), 0
    for name in names:
        text = f'SELECT MEDIAN(age) FROM "{name}" WITHIN {within} ASSUMING AT LEAST {AT_LEAST}'
        most.append(client.price(text).price)
        table = client.sql(text)
        costs.append(table.cost.charged)
        interval = _cell(table.cells).interval
        held += TRUTH in interval
        halves.append(interval.length / 2)
        items = "QUANTILE(age, 0.25), QUANTILE(age, 0.75)"
        quartiles = f'SELECT {items} FROM "{name}" WITHIN 4 ASSUMING AT LEAST {AT_LEAST}'
        again.append(client.sql(quartiles).cost.charged)
    return {
        "within": within,
        "runs": len(names),
        "held": held,
        "half_width": round(float(np.mean(halves)), 3),
        "at_most": round(max(most), 5),
        "median_cost": round(float(np.median(costs)), 5),
        "most_cost": round(max(costs), 5),
        "again": round(float(np.median(again)), 5),
    }


def _cell(cells: Sequence[Sequence[object]]) -> Cell:
    [[cell]] = cells
    assert isinstance(cell, Cell)
    return cell


@contextlib.contextmanager
def _running(names: list[str]) -> Iterator[Client]:
    """A client of a whole server on Adult, attached under each name."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedServer.start(folder / "state"))
        settings = Settings(
            redis_url=server.url, state_dir=folder / "state", slot_ms=0, open_access=True
        )
        files = ("--data", str(adult_csv()), "--domain", str(adult_domain()), "--limit", "2")
        for i, name in enumerate(names):
            others = ("--same-data-other-people",) * (i > 0)
            attach(settings, name, *files, *others, log=folder / "attach.log")
        store = Store.open(settings)
        alive = lambda: store.worker_alive(names[-1])  # noqa: E731
        stack.enter_context(working(settings, log=folder / "worker.log", alive=alive))
        site = stack.enter_context(serving(settings, log=folder / "http.log"))
        yield Client(f"http://{LOOPBACK}:{site.port}", timeout_s=300)
