"""A deployment whose answers an observer times over HTTP: real processes, a naive worker."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from qserver.cli.processes import Child, ChildSpec, child_environment, python_command
from qserver.config import LOOPBACK, Settings
from qserver.query.domain import Attribute, Domain
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.store import Store
from tests.benchmarks.load import ROOT
from tests.benchmarks.stack import serving
from worker.owner.attach import MAX_PHI, AttachRequest, attach
from worker.private.registry import Registry

N_VALUES = 100
"""Questions to one dataset: with more of them planning would grow slow."""
LENGTH = 100
PATIENCE_S = 60.0
PAST_SLOT = "took longer than their slot"
VALUES = Domain((Attribute("value", "integer", edges=tuple(map(Fraction, range(N_VALUES + 1)))),))


@dataclass(frozen=True)
class Timed:
    """One question: how long its answer took, and what the time might tell.

    Args:
        seconds: from the first byte sent to the last one read.
        n_matching: records that match, 0 or 1.
        noise: of the answer, in records.
    """

    seconds: float
    n_matching: int
    noise: float


@dataclass(frozen=True)
class Observed:
    """The timings of one deployment.

    Args:
        n_past_slot: how often the worker's own log says that a draw did not fit its slot.
    """

    timed: Sequence[Timed]
    n_past_slot: int


def observed(folder: Path, *, slot_ms: int, n: int, chance: random.Random) -> Observed:
    """Times of `n` measured answers of a fresh deployment in an empty folder.

    Raises:
        RuntimeError: a question was not measured.
    """
    datasets = [f"d{i}" for i in range(-(-n // N_VALUES))]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer.start(folder / "state"))
        settings = Settings(
            redis_url=server.url,
            state_dir=folder / "state",
            slot_ms=slot_ms,
            http_workers=1,
            wait_s=PATIENCE_S / 2,
            open_access=True,
        )
        present = {name: _attach(settings, folder, name, chance) for name in datasets}
        _start_worker(stack, settings, log=folder / "worker.log")
        site = stack.enter_context(serving(settings, log=folder / "http.log"))
        connection = http.client.HTTPConnection(LOOPBACK, site.port, timeout=PATIENCE_S)
        stack.callback(connection.close)
        asked = [(name, value) for name in datasets for value in range(N_VALUES)][:n]
        chance.shuffle(asked)
        timed = [_timed(connection, name, v, matches=v in present[name]) for name, v in asked]
    log = (folder / "worker.log").read_text(encoding="utf-8")
    return Observed(timed, log.count(PAST_SLOT))


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


def _start_worker(stack: contextlib.ExitStack, settings: Settings, *, log: Path) -> None:
    """Start the naive worker, and return once it is said to live."""
    environment = {**child_environment(settings, os.environ), "PYTHONPATH": str(ROOT)}
    command = python_command("-m", "tests.privacy.naive")
    worker = Child(ChildSpec(name="worker", command=command, environment=environment, log=log))
    stack.callback(worker.stop)
    store, deadline = Store.open(settings), time.monotonic() + PATIENCE_S
    while not store.worker_alive("d0"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"The worker must be ready within {PATIENCE_S:g} s.")
        time.sleep(0.05)


def _timed(
    connection: http.client.HTTPConnection, name: str, value: int, *, matches: bool
) -> Timed:
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
