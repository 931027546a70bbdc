"""A process's copy of a dataset's public state: inference engine and cell ledger, kept current.

The one place where what the store holds becomes what inference and planning work on; the service
and the worker share it. Not thread-safe: its owner locks.
"""

from __future__ import annotations

import random
import secrets

from qserver.config import Settings
from qserver.errors import InputError, StoreError
from qserver.history import Measurement, place_measurement
from qserver.inference.engine import InferenceEngine
from qserver.planning.ledger import CellLedger
from qserver.planning.planner import Plan, plan_answer
from qserver.primitive import Primitive
from qserver.requirement import Requirement
from qserver.storage.records import DatasetMeta, charge_from_json
from qserver.storage.store import Changes, Cursor, Stamp, Store


class Replica:
    """Inference and ledger of one snapshot.

    Args:
        meta: the dataset's public facts.
        shown_only: leave out rows whose publication may not be durable yet. The worker, which
            knows what is durable, reads everything.
    """

    def __init__(self, meta: DatasetMeta, settings: Settings, *, shown_only: bool) -> None:
        self.meta = meta
        self._shown_only = shown_only
        self._cursor = Cursor()
        # The primes of the estimability test must be secret: an analyst who knew them could
        # forge a query that looks estimable.
        entropy = random.Random(secrets.randbits(256))  # noqa: S311
        self.engine = InferenceEngine(meta.domain.sizes, entropy, max_rows=settings.max_rows)
        self.ledger = CellLedger(
            meta.domain.sizes,
            relation=meta.relation,
            records_per_person=meta.records_per_person,
            null_cell=not meta.domain.is_total,
        )
        self.measurements: list[Measurement] = []
        self.n_charges = 0
        self.stamp: Stamp | None = None
        self.worker_alive = False

    def refresh(self, store: Store) -> Stamp:
        """Read what is new in the store; the present stamp.

        Raises:
            NotFoundError: the dataset was detached or has another snapshot now.
            StoreError: the store does not answer, or its ledger contradicts its charges.
        """
        changes = store.changes(self.meta, self._cursor, shown_only=self._shown_only)
        self._take_in(changes)
        sizes = {self.meta.snapshot: self.meta.domain.sizes}
        for text in changes.charges:
            stored = charge_from_json(text, sizes)
            if stored.snapshot == self.meta.snapshot:
                self.ledger.append(stored.charge)
                self.n_charges += 1
        self.ledger.cap(changes.stamp.spent_snapshot_nano)
        self._cursor = changes.cursor
        self.stamp = changes.stamp
        self.worker_alive = changes.worker_alive
        return changes.stamp

    def _take_in(self, changes: Changes) -> None:
        try:
            for measurement in changes.measurements:
                place_measurement(self.measurements, measurement)
            if changes.measurements or changes.estimators:
                self.engine.extend([*changes.measurements, *changes.estimators])
        except InputError as exc:
            raise StoreError("The store's history contradicts itself.") from exc

    @property
    def n_events(self) -> int:
        """Events of the history read so far: its version."""
        return self._cursor.n_events

    def plan(self, query: Primitive, requirement: Requirement) -> Plan:
        """The cheapest plan on the state last read."""
        return plan_answer(
            query,
            requirement,
            engine=self.engine,
            ledger=self.ledger,
            limit_nano=self.present.budget.limit_nano,
        )

    def spent_after(self, plan: Plan) -> int:
        """The population's spent budget after a plan, in nano-epsilon.

        Snapshots add up: one person may stand in a cell of each.
        """
        stamp = self.present
        return stamp.budget.spent_nano - stamp.spent_snapshot_nano + plan.spent_after_nano

    def price_nano(self, plan: Plan) -> int:
        """What a plan costs the population, in nano-epsilon."""
        return self.spent_after(plan) - self.present.budget.spent_nano

    @property
    def present(self) -> Stamp:
        """The stamp last read."""
        if self.stamp is None:
            raise StoreError("The replica was not read yet.")
        return self.stamp
