"""Carry out plans made by hand, so that tests choose what is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from qserver.answering.replica import Replica
from qserver.ledger.noise_step import lattice_step
from qserver.planning.planner import Plan
from qserver.query.class_grid import product_partition
from qserver.query.primitive import primitive
from qserver.query.question import Question
from qserver.records.answer import JobStatus
from qserver.records.charge import AnyCharge, Charge, TableCharge
from qserver.records.history import AnyMeasurement, Measurement
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow, PlannedTable
from qserver.storage.histories import Cursor
from qserver.storage.store import Changes, Store
from tests.deployment import PEOPLE, ROWS, Deployment
from worker.spending.group import job_ends
from worker.spending.spend import Spender

LABELS = ("Female", "Male", "other")
BY_SEX = product_partition(PEOPLE.sizes, {1: [0, 1, 2]})
BY_BOTH = product_partition(
    PEOPLE.sizes, {0: [i // 4 for i in range(PEOPLE.sizes[0])], 1: [0, 1, 2]}
)
COUNTS = [sum(sex == label for _, sex in ROWS) for label in LABELS]
LIMIT_NANO = 100 * 10**9
STEP = lattice_step(primitive(BY_SEX.row(0)).unit, limit_nano=LIMIT_NANO, records_per_person=1)
ALPHA = 2 * 10**9


def live(town: Deployment) -> list[AnyMeasurement]:
    """What is in force, as a new reader finds it."""
    replica = Replica(town.meta, town.settings, shown_only=True)
    replica.refresh(Store.open(town.settings))
    return replica.measurements


def changes(town: Deployment) -> Changes:
    """All that the store shows."""
    return Store.open(town.settings).changes(town.meta, Cursor(), shown_only=True)


def spent_nano(town: Deployment) -> int:
    """The population's spent budget."""
    return town.service().dataset("people").spent_nano


def sex_row(town: Deployment, label: str) -> Measurement:
    """The measured row of one sex."""
    cell = LABELS.index(label)
    rows = [m for m in live(town) if isinstance(m, Measurement)]
    return next(m for m in rows if m.row == BY_SEX.row(cell))


def charges_by_hand(rows: Sequence[PlannedRow], tables: Sequence[PlannedTable]) -> list[AnyCharge]:
    """The charges of rows and tables."""
    return [
        *(Charge(r.row, r.alpha_nano - r.old_alpha_nano, "j") for r in rows),
        *(TableCharge(t.partition, t.charge_nano, t.paid, "j") for t in tables),
    ]


@dataclass
class ByHand:
    """Makes a deployment's worker carry out given rows and tables, whatever is asked."""

    town: Deployment
    monkeypatch: pytest.MonkeyPatch
    length: float = 2.0
    by: str = ""

    def submit(self, label: str = "Male") -> str:
        """Ask for the count of one sex, each time a little more precisely; the job."""
        self.length *= 0.99
        found = self.town.submit({"sex": label}, length=self.length, by=self.by)
        assert isinstance(found, JobStatus)
        return found.id

    def work_off(
        self,
        *tables: PlannedTable,
        rows: Sequence[PlannedRow] = (),
        spender: Spender | None = None,
    ) -> None:
        """Work the waiting jobs off by this plan."""
        with self.planning(*tables, rows=rows):
            self.town.work_off(spender)

    @contextmanager
    def planning(self, *tables: PlannedTable, rows: Sequence[PlannedRow] = ()) -> Iterator[None]:
        """Plan just this, whatever is asked, while it lasts; nothing is refined after its draw."""
        with self.monkeypatch.context() as patched:
            patched.setattr(job_ends, "next_request", lambda *_: None)
            patched.setattr(Replica, "plan", _plan_of(tuple(rows), tables))
            yield

    def spend(
        self, *tables: PlannedTable, rows: Sequence[PlannedRow] = (), label: str = "Male"
    ) -> JobStatus:
        """A whole spend by this plan; how its job ended."""
        job = self.submit(label)
        self.work_off(*tables, rows=rows)
        return self.town.service().job(job)


def _plan_of(rows: tuple[PlannedRow, ...], tables: tuple[PlannedTable, ...]) -> Callable[..., Plan]:
    def plan(replica: Replica, question: Question) -> Plan:
        after = replica.ledger.spent_after(charges_by_hand(rows, tables))
        price = after - replica.ledger.spent_nano
        asked = PaidQuestion(BY_SEX.row(1), question.requirement.half_width, 0.95, "blocks", price)
        return Plan("blocks", rows, price, after, None, (), tables, (asked,))

    return plan
