"""When an answer is published tells nothing of counts or noise.

Time is a clock of the test's own, that moves only as it is told: by the naive parts, whose cost
depends on private data, and by the store, whose cost varies at random as a disk's does. So the
statements hold exactly, and no test of them depends on the machine. Over HTTP, with real time:
`python -m tests.privacy timing`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import LOG, Deployment
from tests.privacy.naive import PER_RECORD_S, PER_WORD_S, NaiveEntropy, NaiveTables
from tests.statistical.test_noise import SeededEntropy
from worker.private.record_tables import Tables
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Time",
        "with the slot, one matching record more or other noise changes no time of publication; "
        "without it both show",
    ),
    pytest.mark.promise(
        "Time",
        "a measurement that fails takes whole slots too",
    ),
]

SLOT_MS = 100
N_ANSWERS = 8
N_MATCHING = 8
STORE_S = 0.06
"""Longest time of one step of the store: several take a spend past the end of a slot."""

Observe = Callable[..., list[float]]


class StoppedClock:
    """Seconds, moved by whoever takes time and by nothing else."""

    def __init__(self) -> None:
        self.now = 0.0

    def spend(self, seconds: float) -> None:
        self.now += seconds

    def wait_until(self, moment: float) -> None:
        self.now = max(self.now, moment)

    def read(self) -> float:
        return self.now


def taking_time(clock: StoppedClock, spender: Spender) -> list[float]:
    """Give the store's steps random times; the list fills with the times of publication."""
    jitter, published = random.Random(3), list[float]()
    writer: Any = spender._writer
    for name in ("reserve", "await_durable", "publish", "acknowledge"):
        step: Callable[..., Any] = getattr(writer, name)

        def slow(*args: Any, _step: Any = step, _name: str = name, **rest: Any) -> Any:
            clock.spend(jitter.uniform(0, STORE_S))
            if _name == "publish":
                published.append(clock.now)
            return _step(*args, **rest)

        setattr(writer, name, slow)
    return published


@pytest.fixture
def observe(tmp_path: Path, store_url: str, redis_client: StoreClient) -> Observe:
    """Times from the begin of jobs to their publication, for one count asked ever more tightly."""

    def times(*, slot_ms: int, n_matching: int = 0, seed: int = 1) -> list[float]:
        redis_client.flushall()
        folder = tmp_path / f"{slot_ms}-{n_matching}-{seed}"
        folder.mkdir()
        rows = [(20, "Female")] * 10 + [(25, "Male")] * n_matching
        town = Deployment.make(folder, store_url, limit="1000", rows=rows)
        clock, trusted = StoppedClock(), town.trusted()
        tables: dict[str, Tables]
        tables = {s: NaiveTables(t, clock.spend) for s, t in trusted.tables.items()}
        entropy = NaiveEntropy(SeededEntropy(seed), clock.spend)
        spender = Spender(
            reader=Store.open(town.settings),
            writer=town.writer(),
            trusted=replace(trusted, tables=tables, entropy=entropy),
            settings=replace(town.settings, slot_ms=slot_ms),
            log=LOG,
            clock=clock.read,
            wait_until=clock.wait_until,
        )
        published, found = taking_time(clock, spender), list[float]()
        for i in range(N_ANSWERS):
            begun = clock.now
            town.submit({"age": 25}, length=100 * 0.8**i)
            town.work_off(spender)
            found.append(published[-1] - begun)
        assert len(published) == N_ANSWERS
        return found

    return times


def differences(one: list[float], other: list[float]) -> list[float]:
    """Seconds by which the second is later, rounded to nanoseconds."""
    return [round(b - a, 9) for a, b in zip(one, other, strict=True)]


@pytest.mark.slow
def test_with_the_slot_matching_records_change_no_time_of_publication(
    observe: Observe,
) -> None:
    """Not by a nanosecond, though the store's varying time often passes a slot's end.

    A slot that began with the job, and so rounded up that time as well, fails here.
    """
    without, with_some = (observe(slot_ms=SLOT_MS, n_matching=n) for n in (0, N_MATCHING))
    assert set(differences(without, with_some)) == {0.0}
    assert len({round(t, 9) for t in without}) == N_ANSWERS


@pytest.mark.slow
def test_with_the_slot_other_noise_changes_no_time_of_publication(observe: Observe) -> None:
    one, other = (observe(slot_ms=SLOT_MS, seed=seed) for seed in (1, 2))
    assert set(differences(one, other)) == {0.0}


@pytest.mark.limit("a slot of 0 ms")
@pytest.mark.slow
def test_without_the_slot_a_matching_record_and_the_noise_show(observe: Observe) -> None:
    """Negative control: the naive parts do take their time from private data."""
    without, with_one = (observe(slot_ms=0, n_matching=n) for n in (0, 1))
    assert set(differences(without, with_one)) == {PER_RECORD_S}
    other_noise = observe(slot_ms=0, seed=2)
    words = [d / PER_WORD_S for d in differences(without, other_noise)]
    assert words == pytest.approx([round(c) for c in words], abs=1e-3)
    assert len(set(map(round, words))) > N_ANSWERS // 2


class Failing:
    """Private tables that fail after a time that tells."""

    def __init__(self, clock: StoppedClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    def answer(self, query: LinearQuery) -> Fraction:
        self._clock.spend(self._seconds)
        raise ValueError

    def counts(self, partition: ProductPartition) -> list[int]:
        raise ValueError


@pytest.mark.parametrize("seconds", [0.001, 0.0745])
def test_a_measurement_that_fails_takes_a_whole_slot_too(
    tmp_path: Path, store_url: str, seconds: float
) -> None:
    town = Deployment.make(tmp_path, store_url)
    clock, trusted = StoppedClock(), town.trusted()
    spender = Spender(
        reader=Store.open(town.settings),
        writer=town.writer(),
        trusted=replace(trusted, tables=dict.fromkeys(trusted.tables, Failing(clock, seconds))),
        settings=replace(town.settings, slot_ms=SLOT_MS),
        log=LOG,
        clock=clock.read,
        wait_until=clock.wait_until,
    )
    town.submit({"age": 25})
    town.work_off(spender)
    assert clock.now == pytest.approx(SLOT_MS / 1000)
