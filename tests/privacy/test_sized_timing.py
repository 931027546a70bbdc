"""With a declared capacity the number of records changes no time of publication.

The clock is the test's own. A scan moves it by the number of records, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.storage.server.connection import StoreClient
from qserver.storage.store import Store
from tests.deployment import LOG, Deployment
from tests.privacy.test_timing import StoppedClock, taking_time
from worker.private.record_tables import RecordTable, Tables
from worker.spending.spend import Spender

pytestmark = [
    pytest.mark.promise(
        "Time",
        "with a declared capacity the number of records changes no time of publication; without "
        "it a scan of several slots does",
    ),
]

SLOT_MS = 5
PER_RECORD_S = 8e-6
CAPACITY = 600_000
"""Its slot is of two attributes' reads: 15 ms. Scans here take up to 13."""
SIZES = (100, 101, 900, 1600)

Times = Callable[..., list[float]]


class SizedTables:
    """Private tables whose scan takes its time from the number of records."""

    def __init__(self, found: Tables, clock: StoppedClock) -> None:
        assert isinstance(found, RecordTable)
        self._found, self._clock = found, clock

    def answer(self, query: LinearQuery) -> Fraction:
        self._clock.spend(len(self._found.codes[0]) * PER_RECORD_S)
        return self._found.answer(query)

    def counts(self, partition: ProductPartition) -> list[int]:
        self._clock.spend(len(self._found.codes[0]) * PER_RECORD_S)
        return self._found.counts(partition)


@pytest.fixture
def times(tmp_path: Path, store_url: str, redis_client: StoreClient) -> Times:
    """Times from the begin of jobs to their publication."""

    def observed(n_records: int, *, capacity: int | None) -> list[float]:
        redis_client.flushall()
        folder = tmp_path / f"{n_records}-{capacity}"
        folder.mkdir()
        rows = [(20 + i % 10, "Male") for i in range(n_records)]
        town = Deployment.make(folder, store_url, limit="1000", rows=rows, capacity=capacity)
        clock, trusted = StoppedClock(), town.trusted()
        tables: dict[str, Tables] = {s: SizedTables(t, clock) for s, t in trusted.tables.items()}
        spender = Spender(
            reader=Store.open(town.settings),
            writer=town.writer(),
            trusted=replace(trusted, tables=tables),
            settings=replace(town.settings, slot_ms=SLOT_MS),
            log=LOG,
            clock=clock.read,
            wait_until=clock.wait_until,
        )
        published, found = taking_time(clock, spender), list[float]()
        for i in range(4):
            begun = clock.now
            town.submit({"age": 25}, length=100 * 0.8**i)
            town.work_off(spender)
            found.append(round(published[-1] - begun, 9))
        return found

    return observed


@pytest.mark.slow
def test_with_a_capacity_the_number_of_records_changes_no_time(times: Times) -> None:
    assert len({tuple(times(n, capacity=CAPACITY)) for n in SIZES}) == 1


@pytest.mark.slow
def test_without_a_capacity_a_scan_of_several_slots_tells_how_many(times: Times) -> None:
    """Negative control: 900 records take two slots of 5 ms, and 1,600 three."""
    few, one_more, more, most = (times(n, capacity=None) for n in SIZES)
    assert few == one_more
    assert [round(b - a, 9) for a, b in zip(few, more, strict=True)] == [0.005] * 4
    assert [round(b - a, 9) for a, b in zip(more, most, strict=True)] == [0.005] * 4
