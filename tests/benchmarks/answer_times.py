"""What an attacker tells of two datasets from the times of their answers, over HTTP.

One server has both datasets. The same new question goes to each, one after the other, in random
order. For each pair the attacker guesses which of the two times is whose, and knows it of all the
other pairs: their differences are the law that the attacker goes by. With a declared capacity the
guesses should be as good as a coin's. Without a slot the number of records shows.

`python -m tests.benchmarks.answer_times PAIRS` prints the table. Its figures mean something on a
quiet machine only, so none are kept.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import duckdb
import numpy as np

from qserver.config import LOOPBACK, Settings
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store

from .stack import attach, serving, working
from .tables import Report, Value, table_text

SEED = 20_261_122
CAPACITY = 1_000_000
N_PAIRS, N_WARM = 240, 3
N_ALONE = 80
"""Pairs that one dataset answers: history makes more of them slow, and then free."""
N_VALUES = 2_000
SLOT_MS = 8
LENGTH = 2_000
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Scenario:
    """Two datasets by their numbers of records, and whether their times are rounded up."""

    name: str
    n_records: tuple[int, int]
    is_slotted: bool


SCENARIOS = (
    Scenario("one record more, capacity", (CAPACITY // 2, CAPACITY // 2 + 1), is_slotted=True),
    Scenario("eight times as many, capacity", (CAPACITY // 8, CAPACITY), is_slotted=True),
    Scenario("eight times as many, no slot", (CAPACITY // 8, CAPACITY), is_slotted=False),
)


def report(*, n_pairs: int, shrink: int) -> Report:
    """Guesses of an attacker in each scenario, with `shrink` times fewer records."""
    rows = [_row(s, n_pairs=n_pairs, shrink=shrink) for s in SCENARIOS]
    return Report(
        name="answer_times",
        title="Pairs of answers, one from each of two datasets, told apart by their times",
        parameters={
            "capacity": CAPACITY // shrink,
            "pairs": n_pairs,
            "seed": SEED,
            "slot_ms": SLOT_MS,
            "connections": 1,
            "workers": 1,
        },
        rows=tuple(rows),
    )


def _row(scenario: Scenario, *, n_pairs: int, shrink: int) -> dict[str, Value]:
    times = _times(scenario, n_pairs=n_pairs, shrink=shrink)
    found = told(times)
    return {
        "datasets": scenario.name,
        "told_percent": 100 * float(found.mean()),
        "standard_error_percent": 50 / sqrt(len(found)),
        "pairs": len(found),
        "p50_ms": 1000 * float(np.median(times)),
        "median_difference_ms": 1000 * float(np.median(np.diff(times))),
    }


def told(times: np.ndarray) -> np.ndarray:
    """For each pair, 1 if the attacker told which time is whose, 0 if not, 0.5 if undecided.

    A pair's order is scored by how much likelier it is under the differences of all other pairs,
    smoothed. That includes "the larger dataset is later" and every other rule on the difference.
    """
    found = np.diff(times).ravel()
    width = max(float(np.std(found)) * len(found) ** -0.2, 1e-6)
    score = _likelihood(found, found, width) - _likelihood(-found, found, width)
    guessed: np.ndarray = np.where(score > 0, 1.0, np.where(score < 0, 0.0, 0.5))
    return guessed


def _likelihood(at: np.ndarray, known: np.ndarray, width: float) -> np.ndarray:
    """The smoothed density of the others' differences at each pair's, up to a factor."""
    near = np.exp(-(((at[:, None] - known[None, :]) / width) ** 2) / 2)
    np.fill_diagonal(near, 0.0)
    found: np.ndarray = near.sum(axis=1)
    return found


def _times(scenario: Scenario, *, n_pairs: int, shrink: int) -> np.ndarray:
    """Seconds of every pair of answers: the first dataset's, and the second's."""
    chance = random.Random(SEED)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(EmbeddedServer.start(folder / "state"))
        settings = Settings(
            redis_url=server.url,
            state_dir=folder / "state",
            slot_ms=SLOT_MS if scenario.is_slotted else 0,
            open_access=True,
        )
        copies = range(-(-n_pairs // N_ALONE))
        for name, n_records in zip(("first", "second"), scenario.n_records, strict=True):
            n = n_records // shrink + n_records % 2  # One more stays one more.
            capacity = scenario.is_slotted and CAPACITY // shrink
            for i in copies:
                _attach(settings, folder, f"{name}-{i}", n, capacity=capacity)
        store = Store.open(settings)
        stack.enter_context(
            working(
                settings, log=folder / "worker.log", alive=lambda: store.worker_alive("second-0")
            )
        )
        site = stack.enter_context(serving(settings, log=folder / "http.log"))
        connection = http.client.HTTPConnection(LOOPBACK, site.port, timeout=_PATIENCE_S)
        stack.callback(connection.close)
        pairs = []
        for i in copies:
            bounds = chance.sample(range(1, N_VALUES), N_WARM + min(n_pairs, N_ALONE))
            pairs += [_pair(connection, i, bound, chance) for bound in bounds][N_WARM:]
    return np.array([pair for pair in pairs if None not in pair], dtype=float)


def _pair(
    connection: http.client.HTTPConnection, i: int, bound: int, chance: random.Random
) -> list[float | None]:
    seconds = {}
    for name in chance.sample(("first", "second"), 2):
        seconds[name] = _seconds(connection, f"{name}-{i}", bound)
    return [seconds["first"], seconds["second"]]


def _seconds(connection: http.client.HTTPConnection, name: str, bound: int) -> float | None:
    """From the first byte sent to the last one read; None if the answer was free."""
    query = {"where": {"value": {"below": bound}}}
    body = json.dumps({"query": query, "length": LENGTH, "confidence": 0.95})
    begun = time.perf_counter()
    connection.request(
        "POST", f"/v1/datasets/{name}/query", body, {"Content-Type": "application/json"}
    )
    response = connection.getresponse()
    answer = json.loads(response.read())
    found = time.perf_counter() - begun
    if response.status != 200:
        raise RuntimeError(f"Every question must be answered, got {response.status}: {answer}")
    return found if answer["epsilon_charged"] > 0 else None


def _attach(
    settings: Settings, folder: Path, name: str, n_records: int, *, capacity: int | bool
) -> None:
    """Values in turn: the larger dataset has all records of the smaller one, and more."""
    data, domain = folder / f"{name}.parquet", folder / "values.json"
    attribute = {"name": "value", "kind": "integer", "range": [0, N_VALUES - 1], "width": 1}
    domain.write_text(json.dumps({"attributes": [attribute]}), encoding="utf-8")
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            f"COPY (SELECT range % {N_VALUES} AS value FROM range({n_records}))"
            f" TO '{data}' (FORMAT parquet)"
        )
    options = ["--same-data-other-people"]
    options += ["--capacity", str(capacity)] if capacity else []
    arguments = ("--data", str(data), "--domain", str(domain), "--limit", "1000", "--phi", "20")
    attach(settings, name, *arguments, *options, log=folder / "attach.log")


if __name__ == "__main__":
    found = report(n_pairs=int(sys.argv[1]) if sys.argv[1:] else N_PAIRS, shrink=1)
    sys.stdout.write(f"{found.title}\n\n{table_text(found.rows)}\n")
