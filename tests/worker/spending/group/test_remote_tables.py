"""Data that another system counts: nothing is charged while it is away, and its slot is kept."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from qserver.errors import UnanswerableError
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.storage.store import Store
from tests.deployment import LOG, Deployment
from worker.private.record_tables import RemoteTables, Tables
from worker.spending.spend import Spender

SLOT_S = 3.0


class Elsewhere:
    """The records of a table, as if another system counted them."""

    def __init__(self, table: Tables, clock: list[float]) -> None:
        self._table, self._clock = table, clock
        self.is_away = False
        self.takes_s = 1.0

    @property
    def slot_s(self) -> float:
        return SLOT_S

    def ready(self) -> None:
        if self.is_away:
            raise UnanswerableError

    def answer(self, query: LinearQuery) -> Fraction:
        self._clock[0] += self.takes_s
        return self._table.answer(query)

    def counts(self, partition: ProductPartition) -> list[int]:
        return self._table.counts(partition)


class Remote:
    """A deployment whose worker counts elsewhere, under a clock of its own."""

    def __init__(self, held: Deployment) -> None:
        self.held, self.clock, self.waited = held, [0.0], list[float]()
        trusted = held.trusted()
        (snapshot,) = trusted.tables
        self.table = Elsewhere(trusted.tables[snapshot], self.clock)
        trusted.tables[snapshot] = self.table
        self.spender = Spender(
            reader=Store.open(held.settings),
            writer=held.writer(),
            trusted=trusted,
            settings=replace(held.settings, slot_ms=5),
            log=LOG,
            clock=lambda: self.clock[0],
            wait_until=self.waited.append,
        )

    def ask(self, where: dict[str, object]) -> object:
        found = self.held.submit(where, length=60)
        self.held.work_off(self.spender)
        return self.held.service().job(found.id).problem


@pytest.fixture
def remote(tmp_path: Path, store_url: str) -> Remote:
    return Remote(Deployment.make(tmp_path, store_url))


def test_what_counts_elsewhere_is_known_by_its_face(remote: Remote) -> None:
    assert isinstance(remote.table, RemoteTables)
    assert not isinstance(next(iter(remote.held.trusted().tables.values())), RemoteTables)


def test_nothing_is_charged_while_it_is_away(remote: Remote) -> None:
    remote.table.is_away = True
    problem = remote.ask({"sex": "Female"})
    assert problem == {
        "code": "unanswerable",
        "message": "The plan gives no answer. Nothing was charged or measured.",
        "facts": {},
    }
    assert remote.held.service().dataset("people").spent_nano == 0
    assert remote.waited == []
    remote.table.is_away = False
    assert remote.ask({"sex": "Female"}) is None
    assert remote.held.service().dataset("people").spent_nano > 0


def test_a_count_takes_its_declared_slot_and_a_late_one_whole_slots(
    remote: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    """The slot of one count, and of one answer that is drawn; the owner's log tells of the late."""
    assert remote.ask({"sex": "Female"}) is None
    one = SLOT_S + 0.005
    assert remote.waited == pytest.approx([one])
    assert "longer than their slot" not in caplog.text
    remote.table.takes_s, begun = 2 * SLOT_S, remote.clock[0]
    assert remote.ask({"age": {"between": [22, 23]}}) is None
    assert remote.waited[1:] == pytest.approx([begun + 2 * one])
    assert "longer than their slot" in caplog.text
