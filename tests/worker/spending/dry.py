"""Spends without a store or a journal: planned, charged, drawn, published and answered in memory.

The JSON forms are those of the store. Made for many random spends in little time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from qserver.answering.decide import Free, decide
from qserver.answering.replica import Replica
from qserver.config import Settings
from qserver.planning.planner import Plan
from qserver.query.domain import Attribute, Domain
from qserver.query.linear_query import total_query
from qserver.query.primitive import primitive
from qserver.query.question import AnyAsked
from qserver.records.charge import Relation, Standing, charge_json
from qserver.records.dataset import DatasetMeta
from qserver.records.history import Estimator
from qserver.records.paid_question import PaidQuestion
from qserver.storage.encoding.jobs import (
    answer_json,
    estimator_from_json,
    estimator_json,
    measurement_json,
    measurements_from_json,
    public_row_json,
)
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.histories import Cursor, Entries
from qserver.storage.standings import Budget, Stamp
from qserver.storage.store import Changes
from tests.statistical.test_noise import SeededEntropy
from worker.private.record_tables import RecordTable, table_from_columns
from worker.spending.answers_in_force import Live
from worker.spending.group.spends import rehearse
from worker.spending.measure import draw_all
from worker.spending.reservation import answer_spent, charges_of, reservation_of


def domain_of(sizes: Sequence[int], *, is_total: bool) -> Domain:
    """Attributes a, b, ... of so many labels; whether every value maps into it."""
    outside: Literal["other", "drop"] = "other" if is_total else "drop"
    n_labels = [size - is_total for size in sizes]
    return Domain(
        tuple(
            Attribute(
                f"x{i}",
                "labels",
                tuple(f"v{j}" for j in range(n)),
                outside=outside,
                missing=outside,
            )
            for i, n in enumerate(n_labels)
        )
    )


def meta_of(
    sizes: Sequence[int], *, relation: Relation, k: int, is_total: bool, phi: float
) -> DatasetMeta:
    """Public facts of a dataset with attributes of these sizes."""
    domain = domain_of(sizes, is_total=is_total)
    return DatasetMeta("data", "town", "snapshot", domain, relation, k, False, phi)


@dataclass
class DryStore:
    """What a store would hold; read as a worker reads it."""

    meta: DatasetMeta
    limit_nano: int
    standing: Standing
    history: list[str] = field(default_factory=list)
    charges: list[str] = field(default_factory=list)
    paid: list[str] = field(default_factory=list)
    estimators: list[str] = field(default_factory=list)

    def changes(
        self, meta: DatasetMeta, cursor: Cursor, *, shown_only: bool, known: Cursor | None = None
    ) -> Changes:
        sizes = meta.domain.sizes
        entries = Entries(
            self.history[cursor.n_events :],
            self.estimators[cursor.n_estimators :],
            self.charges[cursor.n_charges :],
            self.paid[cursor.n_paid :],
        )
        is_covered = known is not None and entries.begin_with(known)
        first = known if known is not None and is_covered else Cursor()
        found = measurements_from_json(
            entries.rows, next_id=cursor.n_measurements, sizes=sizes, n_known=first.n_events
        )
        budget = Budget(self.limit_nano, self.standing.spent_nano, len(self.charges))
        stamp = Stamp(budget, meta.snapshot, len(self.history), self.standing)
        return Changes(
            stamp,
            found,
            tuple(map(estimator_from_json, entries.estimators)),
            tuple(entries.charges[first.n_charges :]),
            tuple(
                PaidQuestion.from_json(t, sizes, is_known=i < first.n_paid)
                for i, t in enumerate(entries.paid)
            ),
            entries.after(cursor, ids=[m.id for m in found], is_chained=True),
            True,
            is_covered,
        )


@dataclass
class DryTown:
    """One dataset, its worker's replica, and what was charged."""

    meta: DatasetMeta
    table: RecordTable
    store: DryStore
    replica: Replica
    entropy: SeededEntropy
    n_charged: int = 0
    rehearsal: Callable[..., object] = rehearse

    @classmethod
    def make(
        cls,
        sizes: Sequence[int],
        *,
        relation: Relation,
        k: int,
        is_total: bool,
        phi: float = 0.4,
        limit_nano: int = 10**12,
        seed: int = 1,
        n_records: int = 300,
    ) -> DryTown:
        meta = meta_of(sizes, relation=relation, k=k, is_total=is_total, phi=phi)
        generator = np.random.default_rng(seed)
        columns = {i: generator.integers(0, n, n_records) for i, n in enumerate(sizes)}
        table = table_from_columns(columns, sizes)
        store = DryStore(meta, limit_nano, Standing.alone(limit_nano=limit_nano, spent_nano=0))
        if relation == "replace-one" and not meta.has_null_cell and k == 1:
            row = total_query(meta.domain.sizes)
            store.history.append(public_row_json(row, primitive(row).key, table.answer(row)))
        replica = Replica(meta, Settings(), shown_only=False)
        town = cls(meta, table, store, replica, SeededEntropy(seed))
        town.refresh()
        return town

    def refresh(self) -> None:
        self.replica.refresh(self.store)  # type: ignore[arg-type]

    def ask(self, asked: AnyAsked) -> Free:
        """A whole job.

        Raises:
            Exception: it was refused, or failed: `n_charged` tells whether it was charged.
        """
        found = decide(self.replica, asked)
        if isinstance(found, Free):
            self.keep(found.estimators)
            return found
        return self.spend(asked, found)

    def spend(self, asked: AnyAsked, plan: Plan) -> Free:
        request = Request("data", "snapshot", asked)
        live = Live(self.replica.measurements)
        live.check((*plan.rows, *plan.tables))
        reservation = reservation_of(
            plan, job=f"j{self.n_charged}", request=request, replica=self.replica
        )
        self.rehearsal(reservation, self.replica)
        self.n_charged += 1
        reservation = Reservation.from_json(reservation.to_json())
        self.store.charges += [
            charge_json(c, snapshot="snapshot", at=0) for c in charges_of(reservation)
        ]
        self.store.paid += reservation.paid
        self.store.standing = reservation.after
        indices = draw_all(
            reservation.planned,
            private=self.table,
            live=live,
            entropy=self.entropy,
            law=self.replica.meta.law,
        )
        self.store.history += [
            measurement_json(p, i, reservation.job)
            for p, i in zip(reservation.planned, indices, strict=True)
        ]
        self.refresh()
        found = answer_spent(self.replica, reservation)
        answer_json(found.answer)
        self.keep(found.estimators)
        return found

    def keep(self, estimators: Sequence[Estimator]) -> None:
        self.store.estimators += map(estimator_json, estimators)
        self.refresh()
