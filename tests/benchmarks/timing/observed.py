"""Times of real spends, taken in the worker's process: nearer than any client can come.

One process has everything: an embedded store that syncs each write, attached datasets, the
questions' planning, and the worker's own `Spender` with its clock and its way to wait. The same new
question goes to both datasets, one after the other, in random order. An observer notes three times
of each answer:

- the measurement, from the beginning of counting to the end of the slot;
- what follows, up to the publication;
- all of it from the charge to the acknowledgement, by which the answer is shown.

A client over HTTP sees the last of them at most, and later, through more parts whose time varies.
"""

from __future__ import annotations

import contextlib
import logging
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from qserver.config import Settings
from qserver.query.domain import Attribute, Domain
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer
from qserver.service.service import Service
from qserver.storage.server.embedded_store import EmbeddedServer
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.main_loop import AttachedData
from worker.owner.attach import MAX_PHI, AttachRequest, attach
from worker.private.registry import Registry
from worker.spending.slot import rest_until
from worker.spending.spend import Spender

from .attack import Times

NAMES = ("one", "two")
N_VALUES = 300
N_ALONE, N_WARM = 40, 3
"""Pairs of one pair of datasets, and pairs before them: history makes later ones slow, then free"""
_ASKED = Requirement(2_000.0, 0.95)
_LOG = logging.getLogger("qserver.benchmarks")
_DOMAIN = Domain((Attribute("value", "integer", edges=tuple(map(Fraction, range(N_VALUES + 1)))),))


@dataclass(frozen=True)
class Datasets:
    """Two datasets that are told apart.

    Args:
        n_records: of the first, and of the second, which has the same and more.
        capacity: that both declare; None declares nothing.
        slot_ms: the setting; 0 for no slot.
    """

    n_records: tuple[int, int]
    capacity: int | None
    slot_ms: int


@dataclass(frozen=True)
class Observed:
    """What was seen.

    Args:
        times: in seconds, shape (pairs, 2, steps).
        n_late: measurements that took longer than their slot, by the worker's own log.
    """

    times: Times
    n_late: int


def observe(
    datasets: Datasets,
    *,
    n_pairs: int,
    seed: int,
    wait_until: Callable[[float], None] = rest_until,
) -> Observed:
    """Times of `n_pairs` pairs of answers from fresh datasets; a few less if some were free.

    Args:
        wait_until: how the worker waits for the end of a slot.
    """
    late, chance = _Late(), random.Random(seed)
    _LOG.addHandler(late)
    _LOG.propagate = False
    pairs: list[list[list[float]]] = []
    try:
        for start in range(0, n_pairs, N_ALONE):
            with _site(datasets, wait_until, chance) as site:
                pairs += _pairs(site, min(n_pairs - start, N_ALONE), chance)
    finally:
        _LOG.removeHandler(late)
    return Observed(np.array(pairs), late.n)


def _pairs(site: _Site, n_pairs: int, chance: random.Random) -> Iterator[list[list[float]]]:
    """Pairs of times of new questions, after some that are not counted."""
    for i, bound in enumerate(chance.sample(range(1, N_VALUES), N_WARM + n_pairs)):
        seen = {name: site.spend(name, bound) for name in chance.sample(NAMES, 2)}
        found = [times for name in NAMES if (times := seen[name]) is not None]
        if i >= N_WARM and len(found) == len(NAMES):
            yield found


@contextlib.contextmanager
def _site(
    datasets: Datasets, wait_until: Callable[[float], None], chance: random.Random
) -> Iterator[_Site]:
    """A fresh deployment with both datasets, attached in random order, each a population."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedServer.start(Path(folder, "state")) as server,
    ):
        settings = Settings(
            redis_url=server.url,
            state_dir=Path(folder, "state"),
            slot_ms=datasets.slot_ms,
            lease_ms=60_000,
            open_access=True,
        )
        registry = Registry(settings.state_dir)
        sizes = dict(zip(NAMES, datasets.n_records, strict=True))
        for name in chance.sample(NAMES, 2):
            _attach(name, sizes[name], datasets.capacity, settings=settings, registry=registry)
        yield _Site.started(settings, registry, wait_until)


class _Late(logging.Handler):
    """Counts the worker's warnings."""

    n = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.n += record.levelno >= logging.WARNING


class _Watch:
    """The moments of one spend."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}

    def clock(self) -> float:
        """The worker's clock, which it reads when counting begins, and at its end."""
        now = time.monotonic()
        self._at.setdefault("begun", now)
        return now

    def after(self, step: Callable[..., Any], name: str) -> Callable[..., Any]:
        """A step of the worker whose end is noted under this name."""

        def noted(*args: Any, **rest: Any) -> Any:
            found = step(*args, **rest)
            self._at[name] = time.monotonic()
            return found

        return noted

    def times(self) -> list[float] | None:
        """The times of the spend since the last call; None if nothing was measured."""
        at, self._at = self._at, {}
        if "ended" not in at:
            return None
        return [
            at["ended"] - at["begun"],
            at["publish"] - at["ended"],
            at["acknowledge"] - at["reserve"],
        ]


@dataclass(frozen=True)
class _Site:
    """Two attached datasets, whoever asks, and the worker."""

    service: Service
    writer: SpendingStore
    spender: Spender
    watch: _Watch

    @classmethod
    def started(
        cls, settings: Settings, registry: Registry, wait_until: Callable[[float], None]
    ) -> _Site:
        """A worker whose steps are watched, and the online side, on attached datasets."""
        watch, writer = _Watch(), SpendingStore.open(settings)
        for step in ("reserve", "publish", "acknowledge"):
            setattr(writer, step, watch.after(getattr(writer, step), step))
        spender = Spender(
            reader=Store.open(settings),
            writer=writer,
            trusted=AttachedData(registry, log=_LOG).load().trusted,
            settings=settings,
            log=_LOG,
            clock=watch.clock,
            wait_until=watch.after(wait_until, "ended"),
        )
        return cls(Service(Store.open(settings), settings), writer, spender, watch)

    def spend(self, name: str, bound: int) -> list[float] | None:
        """Ask how many values are below `bound`, and work it off; None if the answer was free."""
        query = self.service.parse(name, {"where": {"value": {"below": bound}}})
        if isinstance(self.service.ask(name, Question(query, _ASKED), wait_s=0), Answer):
            return None
        taken = self.writer.queue.take([name], consumer="benchmark", block_ms=None)
        lease = self.writer.acquire(name)
        if taken is None or lease is None:
            raise RuntimeError("Nobody else may work on these datasets.")
        self.spender.settle(lease)
        self.spender.work(lease, [taken])
        self.writer.release(lease)
        self.spender.catch_up()
        return self.watch.times()


def _attach(
    name: str, n_records: int, capacity: int | None, *, settings: Settings, registry: Registry
) -> None:
    """Values in turn: the larger dataset has all records of the smaller one, and more."""
    data = settings.state_dir / f"{name}.parquet"
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            f"COPY (SELECT range % {N_VALUES} AS value FROM range({n_records}))"
            f" TO '{data}' (FORMAT parquet)"
        )
    request = AttachRequest(
        name=name,
        data=data,
        domain=_DOMAIN,
        limit=Fraction(1000),
        relation="add-remove",
        population=name,
        records_per_person=1,
        phi=MAX_PHI,
        same_data_other_people=True,
        capacity=capacity,
    )
    attach(request, settings=settings, registry=registry, progress=lambda _text: None)
    SpendingStore.open(settings).queue.beat([name], worker="benchmark", ttl_ms=600_000)
