"""A process's copy of a dataset's public state: inference engine and cell ledger, kept current.

The one place where what the store holds becomes what inference and planning work on; the service
and the worker share it. Not thread-safe: its owner locks.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence

from qserver.config import Settings
from qserver.errors import InputError, StoreError
from qserver.history import AnyMeasurement, place_measurement
from qserver.inference.engine import InferenceEngine
from qserver.planning.ledger import CellLedger
from qserver.planning.planner import Plan, plan_answer
from qserver.planning.proven import proven
from qserver.planning.rent_or_buy import RentOrBuy
from qserver.planning.workload import Question, Verdict, each_alone, plan_workload
from qserver.primitive import Primitive
from qserver.requirement import Requirement
from qserver.standing import Standing
from qserver.storage.records import DatasetMeta, charge_from_json
from qserver.storage.store import Changes, Cursor, Stamp, Store

DEFAULT_PLANNING_S = 0.15


class Replica:
    """Inference and ledger of one snapshot.

    Args:
        meta: the dataset's public facts.
        shown_only: leave out rows whose publication may not be durable yet. The worker, which
            knows what is durable, reads everything.
        planning_s: seconds, per question, after which the best plan found so far is taken.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        meta: DatasetMeta,
        settings: Settings,
        *,
        shown_only: bool,
        planning_s: float = DEFAULT_PLANNING_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.meta = meta
        self._planning_s = planning_s
        self._clock = clock
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
            null_cell=meta.has_null_cell,
        )
        self.measurements: list[AnyMeasurement] = []
        self.rule = RentOrBuy(meta.phi)
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
        for text in changes.charges:
            charge = charge_from_json(
                text, snapshot=self.meta.snapshot, sizes=self.meta.domain.sizes
            )
            if charge is not None:
                self.ledger.append(charge)
                self.n_charges += 1
        for paid in changes.paid:
            self.rule.take_in(paid)
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
        plan = plan_answer(
            query,
            requirement,
            engine=self.engine,
            ledger=self.ledger,
            limit_nano=self.present.budget.limit_nano,
            rule=self.rule,
            allowed_nano=self._allowed_nano,
            out_of_time=self._deadline(),
        )
        return proven(plan, ledger=self.ledger, allowed_nano=self._allowed_nano)

    def plan_workload(
        self, questions: Sequence[Question], *, verdict: Verdict = each_alone
    ) -> Plan:
        """The cheapest plan found that meets many questions at once, on the state last read."""
        plan = plan_workload(
            questions,
            engine=self.engine,
            ledger=self.ledger,
            limit_nano=self.present.budget.limit_nano,
            cells=self.rule.cells,
            verdict=verdict,
            out_of_time=self._deadline(n_questions=len(questions)),
        )
        return proven(plan, ledger=self.ledger, allowed_nano=self._allowed_nano)

    @property
    def _allowed_nano(self) -> int:
        """What the snapshot may have spent in all, beside other snapshots and under the guard."""
        return self.present.standing.allowed_nano(self.meta.guard_nano)

    def _deadline(self, *, n_questions: int = 1) -> Callable[[], bool]:
        end = self._clock() + self._planning_s * n_questions
        return lambda: self._clock() > end

    def after(self, plan: Plan) -> Standing:
        """The snapshot's standing after a plan."""
        return self.present.standing.after(plan.spent_after_nano)

    def price_nano(self, plan: Plan) -> int:
        """What a plan costs the people of the snapshot, in nano-epsilon."""
        return self.after(plan).lost_nano - self.present.standing.lost_nano

    @property
    def present(self) -> Stamp:
        """The stamp last read."""
        if self.stamp is None:
            raise StoreError("The replica was not read yet.")
        return self.stamp
