"""A process's copy of a dataset's public state: inference engine and cell ledger, kept current.

Only here the contents of the store become the state of inference and planning. The service and the
worker share this code. It is not thread-safe: its owner locks.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import TypeVar

from qserver.answering.checkpoint import Saved, note_ignored
from qserver.config import Settings
from qserver.errors import StoreCorruptError, StoreError
from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.claims import ClaimBounds, Lifted, claimed_queries
from qserver.ledger.one_person import neighbours_of
from qserver.planning.blocks.earlier_questions import EarlierDemand
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.failures import OnFault, WayFault
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, plan_answer, proven
from qserver.planning.workloads.one_by_one import plans_apart
from qserver.planning.workloads.simultaneous import free_together, plan_together
from qserver.planning.workloads.workload import (
    WorkloadPlan,
    free_workload,
    plan_by_rows,
    plan_workload,
    simultaneous,
)
from qserver.query.primitive import Primitive
from qserver.query.question import Question, Workload
from qserver.query.requirement import Measure, Requirement
from qserver.records.charge import Standing, charge_from_json
from qserver.records.claim import Claim
from qserver.records.dataset import DatasetMeta
from qserver.records.digest_links import relinked
from qserver.records.history import (
    AnyMeasurement,
    Estimator,
    measured_under,
    place_measurement,
)
from qserver.records.paid_question import PaidQuestion
from qserver.records.state import State
from qserver.storage.encoding.digests import PAID, reading, sealed
from qserver.storage.encoding.jobs import measurements_from_json
from qserver.storage.histories import Cursor, Entries
from qserver.storage.standings import Stamp
from qserver.storage.store import Changes, Store

A = TypeVar("A", Question, Workload, Question | Workload)
P = TypeVar("P", bound=Plan)
_Asked = tuple[Primitive, Requirement, Measure | None, bool]
_log = logging.getLogger(__name__)


def note_fault(fault: WayFault) -> None:
    """Log for the operator which way of planning failed; the next one is taken."""
    _log.error(
        "planning by way of %s failed, and the next way is taken", fault.way, exc_info=fault.error
    )


def _asked(question: Question) -> _Asked:
    """All inputs of a question's plan besides the state."""
    return question.row, question.requirement, question.measure, question.looking.independent


class Replica:
    """Inference and ledger of one snapshot.

    Attributes:
        claims: what the owner does not want to be known too well.
        n_resumed: events and paid questions that were not replayed, but taken from what was saved.

    Args:
        meta: the dataset's public facts.
        shown_only: leave out rows whose publication may not be durable yet. The worker, which
            knows which are durable, reads all of them.
        planning_work: work after which the best plan found so far for a question is taken: it is
            counted, not timed, so that web and worker find the same.
        saved: what an earlier process knew, in place of a replay.
        on_fault: is told of a fault of the program in one way of planning; by default it is logged.
    """

    def __init__(
        self,
        meta: DatasetMeta,
        settings: Settings,
        *,
        shown_only: bool,
        planning_work: float = PLANNER.question_work,
        saved: Saved | None = None,
        on_fault: OnFault = note_fault,
    ) -> None:
        self.meta = meta
        self._settings = settings
        self._planning_work = planning_work
        self._shown_only = shown_only
        self._saved = saved
        self._on_fault = on_fault
        self._singles: dict[tuple[_Asked, bool], Plan] = {}
        self._earlier: EarlierDemand | None = None
        self.stamp: Stamp | None = None
        self.worker_alive = False
        self.n_resumed = 0
        self.claims = meta.claims
        self._begin()

    def _begin(self) -> None:
        """Start without knowledge of the store."""
        meta = self.meta
        self._cursor = Cursor()
        self.engine = InferenceEngine(
            meta.domain.sizes,
            max_rows=self._settings.max_rows,
            most_records=meta.most_records,
            apart=meta.apart_axis,
            # Where only durable events show, people wait; a worker plans on all rows.
            may_wait=not self._shown_only,
            law=meta.law,
        )
        self.ledger = CellLedger.like(meta.domain.sizes, neighbours_of(meta))
        self._claims = self._of_claims()
        self.measurements: list[AnyMeasurement] = []
        self.rule = RentOrBuy(meta.phi)
        self.n_charges = 0

    def refresh(self, store: Store) -> Stamp:
        """Read the new events of the store; return the present stamp.

        Raises:
            NotFoundError: the dataset was detached or has another snapshot now.
            StoreError: the store does not answer, or its ledger contradicts its charges.
        """
        if self.meta.demand_of and self._earlier is None:
            self._earlier = EarlierDemand(store.earlier_questions(self.meta), self.meta.phi)
        saved, self._saved = self._saved, None
        known = None if saved is None else saved.cursor
        changes = store.changes(self.meta, self._cursor, shown_only=self._shown_only, known=known)
        if changes.stamp.claims != self.claims:
            self._claim(changes.stamp.claims)
            if self.stamp is not None:
                # Claims set later need earlier charges, which this replica has not kept.
                self._begin()
                return self.refresh(store)
        self._singles.clear()
        self._take_in(changes.measurements, changes.estimators)
        for paid in changes.paid:
            self.rule.take_in(paid)
        if saved is not None and not self._resume(saved, changes):
            self._begin()
            return self.refresh(store)
        with reading("charges"):
            self._charge(changes.charges)
        self.ledger.record(changes.stamp.spent_snapshot_nano)
        self._cursor = changes.cursor
        self.stamp = changes.stamp
        self.rule.expected = changes.stamp.expected
        self.worker_alive = changes.worker_alive
        return changes.stamp

    @property
    def n_entries(self) -> int:
        """Events and paid questions read so far."""
        return self._cursor.n_entries

    @property
    def position(self) -> tuple[Cursor, Stamp]:
        """The reader's position and the budget: where both are equal, so is every plan."""
        return self._cursor, self.present

    @property
    def is_chained(self) -> bool:
        """Whether the history has a chain, which distinguishes its positions."""
        return self._cursor.head is not None

    @property
    def saved(self) -> Saved:
        """The state with which another process can continue."""
        self.engine.catch_up()
        parts = {
            "ledger": self.ledger.state(),
            "rows": self.engine.in_play.state(),
            "rule": self.rule.state(),
        }
        if self.claims:
            parts["claims"] = self._claims.state()
        return Saved(self._cursor, State.of_parts(parts, {"n_charges": self.n_charges}))

    def _claim(self, claims: tuple[Claim, ...]) -> None:
        """Hold these claims from the first charge on."""
        self.claims = claims
        self._claims = self._of_claims()

    def _of_claims(self, charged: State | None = None) -> ClaimBounds:
        meta = self.meta
        balanced = meta.has_known_total
        found = claimed_queries(self.claims, meta.domain, balanced=balanced, law=meta.law)
        if charged is None:
            return ClaimBounds(found)
        return ClaimBounds.from_state(charged, found, sizes=meta.domain.sizes)

    def _resume(self, saved: Saved, changes: Changes) -> bool:
        """Continue from a saved state, if it belongs to this store."""
        if not changes.is_covered:
            note_ignored(self.meta, "the store does not begin with what it was made from")
            return False
        state, sizes = saved.state, self.meta.domain.sizes
        try:
            neighbours = self.ledger.neighbours
            part = state.part("ledger")
            self.ledger = CellLedger.from_state(part, sizes=sizes, neighbours=neighbours)
            self.engine.in_play.restore(state.part("rows"), sizes)
            self.rule.restore(state.part("rule"))
            if self.claims:
                self._claims = self._of_claims(state.part("claims"))
            self.n_charges, self.n_resumed = state.head["n_charges"], saved.cursor.n_entries
        except Exception as exc:  # noqa: BLE001 - whatever is wrong with it, the store has it all
            note_ignored(self.meta, f"it cannot be used: {exc!r}")
            return False
        return True

    def _charge(self, texts: Sequence[str]) -> None:
        for text in texts:
            charge = charge_from_json(
                text, snapshot=self.meta.snapshot, sizes=self.meta.domain.sizes
            )
            if charge is not None:
                self.ledger.append(charge)
                self._claims.append(charge)
                self.n_charges += 1

    def _take_in(
        self, measurements: Sequence[AnyMeasurement], estimators: Sequence[Estimator]
    ) -> None:
        with reading("history"):
            measurements = [measured_under(self.meta.law, one) for one in measurements]
            for measurement in measurements:
                place_measurement(self.measurements, measurement)
            if any(not 0 <= i < len(self.measurements) for e in estimators for i, _ in e.weights):
                raise StoreCorruptError("The store has weights of rows that it does not have.")
            if measurements or estimators:
                self.engine.extend([*measurements, *estimators])

    def stand_at(self, stamp: Stamp) -> None:
        """Plan with this stamp's budget from now on."""
        if stamp != self.stamp:
            self._singles.clear()
        self.stamp = stamp

    def follow_charge(
        self, texts: Sequence[str], *, snapshot: str, after: Standing, paid: Sequence[str]
    ) -> None:
        """Add a charge of this process, without reading it from the store.

        Args:
            texts: the population's new charges, as the store will have them.
            snapshot: the charged one.
            after: its standing then.
            paid: its new paid questions, as JSON texts.
        """
        self._singles.clear()
        self._charge(texts)
        own = paid if snapshot == self.meta.snapshot else ()
        for text in own:
            self.rule.take_in(PaidQuestion.from_json(text, self.meta.domain.sizes))
        self.stamp = self.present.charged(snapshot, after)
        self.ledger.record(self.stamp.spent_snapshot_nano)
        kept = [sealed(text, name=PAID) for text in own]
        self._move(Entries((), (), texts, kept), ids=())

    def follow_release(self, events: Sequence[str]) -> None:
        """Add a release of this process, without reading it from the store.

        Args:
            events: JSON texts, without links.
        """
        self._singles.clear()
        head = self._cursor.head
        self._release(events if head is None else relinked(events, prev=head).texts)

    def keep(self, estimators: Sequence[Estimator]) -> None:
        """Use these weights from now on; the store gets them when their job ends."""
        self._singles.clear()
        self._take_in((), estimators)

    def _release(self, events: Sequence[str]) -> None:
        cursor, sizes = self._cursor, self.meta.domain.sizes
        new = measurements_from_json(events, next_id=cursor.n_measurements, sizes=sizes)
        self._take_in(new, ())
        self._move(Entries(events, (), (), ()), ids=[m.id for m in new])

    def _move(self, entries: Entries, *, ids: Sequence[int]) -> None:
        self._cursor = entries.after(self._cursor, ids=ids, is_chained=self.is_chained)

    def tried(self, events: Sequence[str]) -> Replica:
        """The replica after these releases; this one keeps its history.

        Ledger and paid questions are this replica's own, also when they grow. It is valid until
        this replica reads a release.

        Args:
            events: JSON texts of releases, as they would be published.

        Raises:
            StoreError: they contradict the history.
        """
        found = copy.copy(self)
        found.engine, found.measurements = self.engine.tried(), list(self.measurements)
        found._singles = {}
        found._release(events)
        return found

    @property
    def n_events(self) -> int:
        """The number of history events read so far: its version."""
        return self._cursor.n_events

    def chosen(self, asked: A) -> A:
        """The request; where its asker made no choice of `measure`, with the owner's."""
        return asked if asked.measure else asked.with_measure(self.present.measure)

    def plan(self, question: Question) -> Plan:
        """The cheapest plan on the state last read."""
        key = _asked(question), True
        if key not in self._singles:
            self._singles[key] = self._proven(self._single(question))
        return self._singles[key]

    def _proven(self, plan: P) -> P:
        return proven(plan, ledger=self.ledger, allowed_nano=self.allowed_nano)

    def _single(self, question: Question) -> Plan:
        """The plan of one question; the same one while the state is unchanged."""
        key = _asked(question), False
        plan = self._singles.get(key)
        if plan is None:
            plan = self._singles[key] = plan_answer(
                question,
                self.holdings,
                rule=self.rule,
                earlier=self._earlier,
                allowed_nano=self.allowed_nano,
                effort=Effort(self._planning_work),
            )
        return plan

    def _of_many(self, question: Question, _effort: Effort) -> Plan:
        """The plan of a workload's question, whatever its asker chose; without a search.

        A workload buys nothing for other questions, so what may be asked later does not matter.
        """
        return self._single(question.with_measure("only_this"))

    def plans_apart(self, questions: Sequence[Question], effort: Effort) -> list[Plan] | None:
        """Each question's own plan, on the present state; None if that takes too long.

        After half of the work the other questions are planned by rows alone.

        Args:
            effort: counts the work.
        """
        plans, most = list[Plan](), PLANNER.work_part * PLANNER.workload_work
        for plan in plans_apart(self.holdings, questions, self._of_many, Effort(most, effort)):
            if plan is None:
                return None
            fits = plan.spent_after_nano <= self.allowed_nano
            plans.append(plan if fits else self._proven(plan))
        return plans

    def plan_workload(self, workload: Workload, *, effort: Effort | None = None) -> WorkloadPlan:
        """The cheapest plan found that serves many questions at once, on the state last read.

        Args:
            effort: counts the work.
        """
        find = plan_together if workload.simultaneous else plan_workload
        plan = find(
            workload.questions,
            self.holdings,
            rule=self.rule,
            # Without tables, a single question is cheapest by rows alone.
            single=self._of_many if self.engine.tables.blocks.alphas else None,
            effort=Effort(PLANNER.workload_work, effort),
        )
        return self._proven(plan)

    def plan_by_rows(self, workload: Workload) -> WorkloadPlan:
        """A plan at least as dear as that of `plan_workload`, found sooner."""
        together = workload.simultaneous
        questions = simultaneous(workload.questions) if together else workload.questions
        return plan_by_rows(questions, self.holdings)

    def free_workload(self, workload: Workload) -> WorkloadPlan | None:
        """The plan of a workload that history already answers, else None; found sooner."""
        find = free_together if workload.simultaneous else free_workload
        return find(self.holdings, workload.questions)

    @property
    def holdings(self) -> Holdings:
        """The planner's view of the state last read."""
        limit = self.present.budget.limit_nano
        kept = self.meta.kept_periods(self.present.n_sealed, self.present.n_retired)
        return Holdings(
            self.engine,
            self.ledger,
            limit,
            self.rule.cells,
            self.meta.apart_axis,
            kept,
            on_fault=self._on_fault,
        )

    @property
    def allowed_nano(self) -> int:
        """The most that the snapshot may have spent in all, given other snapshots and the guard."""
        return self.present.standing.allowed_nano(self.meta.guard_nano)

    def after(self, plan: Plan) -> Standing:
        """The snapshot's standing after a plan."""
        return self.present.standing.after(plan.spent_after_nano)

    def price_nano(self, plan: Plan) -> int:
        """The price of a plan for the people of the snapshot, in nano-epsilon."""
        return self.present.price_nano(self.after(plan))

    def price_apart_nano(self, plans: Sequence[Plan]) -> int:
        """The price of plans of this state, carried out one by one."""
        standing = self.present.standing
        rise = sum(self.after(plan).lost_nano - standing.lost_nano for plan in plans)
        return self.meta.shown.rise_nano(standing.lost_nano, standing.lost_nano + rise)

    def lifted(self, plan: Plan) -> Lifted | None:
        """The first claim that a plan would let be known too well, if any."""
        return self._claims.lifted(plan.purchase.charges, every_nano=self._elsewhere_nano)

    @property
    def known_claims(self) -> list[tuple[Claim, float]]:
        """The highest probability of each claim, given all charges."""
        return self._claims.known(every_nano=self._elsewhere_nano)

    @property
    def _elsewhere_nano(self) -> int:
        """The most that a person of the snapshot may have lost in other snapshots."""
        return self.present.standing.lost_nano - self.present.standing.share_nano

    @property
    def present(self) -> Stamp:
        """The last stamp."""
        if self.stamp is None:
            raise StoreError("The replica was not read yet.")
        return self.stamp
