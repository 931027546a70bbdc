"""An observer of the times of HTTP answers, with the slot and without it.

Real processes and real time: gunicorn, an embedded store that syncs every write, and the naive
worker, whose counting and sampling take their time from private data. Half of the questions are
about a value that one record has, half about one that none has, in random order; each is asked
once, so that every answer is measured. The observer compares the times of the two halves, and the
times of large noise with those of small noise.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from qserver.children import Child, ChildSpec, child_environment, python_command
from qserver.config import Settings
from qserver.domain import Attribute, Domain
from qserver.storage.embedded import EmbeddedServer
from qserver.storage.store import Store
from tests.benchmarks.load import ROOT
from tests.benchmarks.stack import serving
from worker.attach import MAX_PHI, AttachRequest, attach
from worker.registry import Registry

SLOTS_MS = {"slot": 100, "no slot": 0}
"""The slot holds the draw, some 15 ms, also on a machine that others keep busy."""
N_VALUES = 100
"""Questions to one dataset: with more of them planning would grow slow."""
LENGTH = 100
FALSE_ALARM = 1e-6
SHIFTS_US = (20, 50, 100, 200, 500, 1000, 2000, 5000)
VALUES = Domain((Attribute("value", "integer", edges=tuple(map(Fraction, range(N_VALUES + 1)))),))
Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Timed:
    """One question: how long its answer took, and what the time might tell."""

    seconds: float
    n_matching: int
    noise: float


def run(
    folder: Path, *, n_runs: int, seed: int, only: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """What the observer tells apart, as JSON values, from `n_runs` timings with and without."""
    found = []
    for name in only or SLOTS_MS:
        below = folder / name.replace(" ", "-")
        below.mkdir()
        timed = timings(below, slot_ms=SLOTS_MS[name], n=n_runs, seed=seed)
        for secret, groups in _groups(timed).items():
            found.append({"arm": name, "slot_ms": SLOTS_MS[name], **compared(secret, *groups)})
            found[-1]["as_expected"] = found[-1]["told_apart"] == (name == "no slot")
            sys.stderr.write(f"{found[-1]}\n")
    return found


def compared(secret: str, one: Times, other: Times) -> dict[str, Any]:
    """The two-sample test of Kolmogorov and Smirnov, and the least shift that it would notice."""
    p_value = float(stats.ks_2samp(one, other).pvalue)
    noticed = (us for us in SHIFTS_US if stats.ks_2samp(one, other + us / 1e6).pvalue < FALSE_ALARM)
    return {
        "secret": secret,
        "timings": [len(one), len(other)],
        "median_ms": [round(1e3 * float(np.median(t)), 3) for t in (one, other)],
        "p_value": p_value,
        "told_apart": p_value < FALSE_ALARM,
        "least_shift_noticed_us": None if p_value < FALSE_ALARM else next(noticed, None),
    }


def timings(folder: Path, *, slot_ms: int, n: int, seed: int) -> list[Timed]:
    """Times of `n` measured answers."""
    chance = random.Random(seed)
    n_datasets = -(-n // N_VALUES)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer.start(folder / "state"))
        settings = Settings(
            redis_url=server.url,
            state_dir=folder / "state",
            slot_ms=slot_ms,
            http_workers=1,
            open_access=True,
        )
        present = [_attach(settings, folder, f"d{i}", chance) for i in range(n_datasets)]
        worker = Child(
            ChildSpec(
                name="worker",
                command=python_command("-m", "tests.privacy.naive"),
                environment={**child_environment(settings, os.environ), "PYTHONPATH": str(ROOT)},
                log=folder / "worker.log",
            )
        )
        stack.callback(worker.stop)
        store = Store.open(settings)
        while not store.worker_alive("d0"):
            time.sleep(0.05)
        site = stack.enter_context(serving(settings, log=folder / "http.log"))
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
        stack.callback(connection.close)
        asked = [(i, value) for i in range(n_datasets) for value in range(N_VALUES)][:n]
        chance.shuffle(asked)
        return [_timed(connection, f"d{i}", v, v in present[i]) for i, v in asked]


def _attach(settings: Settings, folder: Path, name: str, chance: random.Random) -> set[int]:
    """Attach a dataset in which half of the values have one record each; those values."""
    present = set(chance.sample(range(N_VALUES), N_VALUES // 2))
    data = folder / f"{name}.csv"
    data.write_text("value\n" + "".join(f"{v}\n" for v in sorted(present)))
    request = AttachRequest(
        name=name,
        data=data,
        domain=VALUES,
        limit=Fraction(10),
        relation="add-remove",
        population=name,
        records_per_person=1,
        phi=MAX_PHI,
    )
    registry = Registry(settings.state_dir)
    attach(request, settings=settings, registry=registry, progress=lambda _text: None)
    return present


def _timed(connection: http.client.HTTPConnection, name: str, value: int, matches: bool) -> Timed:
    """Ask and wait. The estimate of a new row is its answer, so its noise is known to us."""
    query = {"where": {"value": value}}
    body = json.dumps({"query": query, "length": LENGTH, "confidence": 0.95})
    headers = {"Content-Type": "application/json"}
    begun = time.perf_counter()
    connection.request("POST", f"/v1/datasets/{name}/query", body, headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    seconds = time.perf_counter() - begun
    if response.status != 200 or answer["source"] != "measured":
        raise RuntimeError(f"Every answer must be measured, got {response.status}: {answer}")
    return Timed(seconds, int(matches), answer["estimate"] - matches)


def _groups(timed: Sequence[Timed]) -> dict[str, tuple[Times, Times]]:
    """The timings in two groups each, by count and by size of the noise."""
    seconds = np.array([t.seconds for t in timed])
    matches = np.array([t.n_matching for t in timed]) == 1
    sizes = np.abs([t.noise for t in timed])
    small, large = (np.quantile(sizes, level) for level in (0.25, 0.75))
    return {
        "one matching record or none": (seconds[~matches], seconds[matches]),
        "large or small noise": (seconds[sizes <= small], seconds[sizes >= large]),
    }
