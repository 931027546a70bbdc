"""The use cases of the online side: where storage meets inference and planning."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from qserver.answering.answer import offer_from
from qserver.answering.explain import explain_question, explain_workload, payable_charges
from qserver.answering.quotient import joint_parts
from qserver.answering.workload import offers
from qserver.config import Settings
from qserver.errors import NotEstimableError, NotFoundError, QueryError
from qserver.inference.joint.quotient import JointParts
from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery
from qserver.query.primitive import primitive
from qserver.query.question import Question, Workload
from qserver.query.requirement import Requirement
from qserver.query.sql.queries import query_of
from qserver.query.structured import parse_query
from qserver.records.answer import (
    Answer,
    DatasetStatus,
    Explanation,
    Guard,
    HistoryPage,
    HistoryRow,
    HistoryTable,
    JobStatus,
    LedgerReport,
    Offer,
    OwnPrice,
    Probability,
    WorkloadAnswer,
    WorkloadExplanation,
)
from qserver.records.charge import AnyCharge
from qserver.records.dataset import DatasetMeta
from qserver.records.disclosure import known_at_most
from qserver.records.history import AnyMeasurement, TableMeasurement
from qserver.service.allowances import Allowances, Asker
from qserver.service.ask import Asking, Idempotency
from qserver.service.audit import AuditPage, Oversight, SpendingReport
from qserver.service.datasets import OpenDatasets
from qserver.service.insight import Insight
from qserver.service.models import ModelService
from qserver.service.replaced_snapshots import FrozenHistories
from qserver.storage.snapshots import FrozenHistory
from qserver.storage.store import Stamp, Store

__all__ = ["Idempotency", "Service"]

# Weights for a probability are those of this confidence; the posterior itself is exact for them.
_PROBABILITY_CONFIDENCE = 0.95


class Service:
    """Thread-safe; one per process.

    Args:
        clock: seconds, monotonic.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._datasets = OpenDatasets(store, settings)
        self._oversight = Oversight(store)
        self._allowances = Allowances(store)
        self._frozen = FrozenHistories(store)
        # Workloads have replicas of their own: one may take seconds, and questions shall not wait.
        self._workloads = OpenDatasets(store, settings)
        self._asking = Asking(
            store, self._datasets, self._workloads, settings, clock=clock, sleep=sleep
        )
        self.models = ModelService(
            store, self._datasets, self._workloads, self._asking, self._allowances
        )
        self.insight = Insight(store, self._datasets)

    def datasets(self) -> list[DatasetStatus]:
        """The public face of every dataset, by name."""
        found = []
        for name in sorted(self._store.datasets()):
            try:
                found.append(self.dataset(name))
            except NotFoundError:
                continue  # detached between the two readings
        return found

    def dataset(self, name: str) -> DatasetStatus:
        """The public face of a dataset; NotFoundError."""
        stamp = self._datasets.stamp(name)
        meta = self._datasets.meta(name)
        return DatasetStatus(
            name=name,
            population=meta.population,
            snapshot=meta.snapshot,
            domain=meta.domain_document,
            n_cells=meta.domain.n_cells,
            relation=meta.relation,
            records_per_person=meta.records_per_person,
            records_verified=meta.records_verified,
            limit_nano=stamp.budget.limit_nano,
            spent_nano=stamp.budget.spent_nano,
            remaining_nano=stamp.remaining_nano,
            guard=_guard(meta, stamp),
            earlier_snapshots=self._store.frozen.ids(meta),
            phi=meta.phi,
            version=stamp.n_shown,
            worker_alive=self._store.worker_alive(meta.population),
        )

    def domain(self, name: str) -> Domain:
        """The domain of a dataset; NotFoundError."""
        return self._datasets.meta(name).domain

    def parse(self, name: str, document: object) -> LinearQuery:
        """The linear query that a structured question, or a text of SQL, means.

        Raises QueryError and CapacityError.
        """
        return query_of(document, self.domain(name), dataset=name)

    def version(self, name: str) -> Stamp:
        """What every answer on a dataset depends on; one small round trip."""
        return self._datasets.stamp(name)

    def ready(self) -> None:
        """Return if the store answers and keeps what it acknowledges; StoreError otherwise."""
        self._store.check_ready(allow_volatile=self._settings.allow_volatile)

    def ask(
        self,
        name: str,
        query: LinearQuery,
        requirement: Requirement,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> Answer | JobStatus:
        """The answer, or after `wait_s` seconds the job that is finding it.

        Args:
            by: account that asks, and pays where nobody asked the same before.

        Raises:
            AllowanceExhaustedError: the analyst's own allowance or pace cannot pay.
            BudgetExhaustedError: history does not suffice and the price exceeds what remains;
                its `free` is the best interval available for nothing, or None.
            NoWorkerError: an answer must be measured and no worker is alive.
            IdempotencyError: the key came with another body before.
            MeasurementError: the measurement failed.
        """
        found = self._asking.ask(
            name, Question(query, requirement), wait_s=wait_s, idempotency=idempotency, by=by
        )
        return cast("Answer | JobStatus", found)

    def ask_workload(
        self,
        name: str,
        workload: Workload,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
    ) -> WorkloadAnswer | JobStatus:
        """The answers of all questions, or after `wait_s` seconds the job that is finding them.

        All or nothing: the budget pays for the whole. Raises as `ask` does; `free` of
        BudgetExhaustedError and DisclosureGuardError then has an interval, or None, per question.
        """
        found = self._asking.ask(name, workload, wait_s=wait_s, idempotency=idempotency, by=by)
        return cast("WorkloadAnswer | JobStatus", found)

    def known(self, name: str, query: LinearQuery, *, confidence: float) -> Offer | None:
        """The best interval that history gives for nothing at `confidence`, or None."""
        row = primitive(query)
        if row.is_zero:
            return Offer(0.0, 0.0, confidence)
        opened = self._datasets.refresh(name)
        with opened.lock:
            estimate = opened.replica.engine.estimate(row, confidence=confidence)
        return None if estimate is None else offer_from(row, estimate, confidence=confidence)

    def offers(self, name: str, workload: Workload) -> tuple[Offer | None, ...]:
        """Per question of a workload the interval that history gives for nothing, or None."""
        opened = self._workloads.refresh(name)
        with opened.lock:
            return offers(opened.replica.engine, workload)

    def joint(self, name: str, over: Question, under: Question) -> JointParts | None:
        """Both estimates of a quotient with their noises; None where they are not by rows alone."""
        opened = self._workloads.refresh(name)
        with opened.lock:
            return joint_parts(opened.replica.engine, over, under)

    def job(self, job_id: str) -> JobStatus:
        """A job's state, result or problem; NotFoundError."""
        return self._asking.job(job_id)

    def explain(
        self, name: str, query: LinearQuery, requirement: Requirement, *, by: str = ""
    ) -> Explanation:
        """Plan, price, what is available for nothing, and a price curve; spends nothing.

        Args:
            by: account that asks, whose own allowance is shown.
        """
        opened = self._datasets.refresh(name)
        with opened.lock:
            explained = explain_question(opened.replica, Question(query, requirement))
        own = self._own_price(by, opened.meta, explained.charges)
        return replace(explained.explanation, own=own)

    def explain_workload(
        self, name: str, workload: Workload, *, by: str = ""
    ) -> WorkloadExplanation:
        """The same of a workload, beside the price of its questions asked one by one."""
        opened = self._workloads.refresh(name)
        with opened.lock:
            explained = explain_workload(opened.replica, workload)
        own = self._own_price(by, opened.meta, explained.charges)
        return replace(explained.explanation, own=own)

    def is_payable(self, name: str, workload: Workload, *, by: str = "") -> bool:
        """Whether budget, guard and the asker's own ledger let a workload be measured now."""
        opened = self._workloads.refresh(name)
        with opened.lock:
            charges = payable_charges(opened.replica, workload)
        own = None if charges is None else self._own_price(by, opened.meta, charges)
        return charges is not None and (own is None or own.affordable)

    def _own_price(
        self, by: str, meta: DatasetMeta, charges: Sequence[AnyCharge]
    ) -> OwnPrice | None:
        return self._allowances.price(Asker(by, meta.population), meta.snapshot, charges)

    def probability(self, name: str, query: LinearQuery, *, low: float, high: float) -> Probability:
        """P(low <= q <= high) from history alone; NotEstimableError."""
        row = primitive(query)
        opened = self._datasets.refresh(name)
        with opened.lock:
            version = opened.replica.present.n_shown
            if row.is_zero:
                return Probability(float(low <= 0 <= high), version)
            estimate = opened.replica.engine.estimate(row, confidence=_PROBABILITY_CONFIDENCE)
        if estimate is None:
            raise NotEstimableError
        posterior = estimate.posterior.scaled(row.multiplier)
        return Probability(posterior.probability_between(low, high), version)

    def history(
        self, name: str, *, after: int, limit: int, snapshot: str | None = None
    ) -> HistoryPage:
        """Released rows and tables with an id above `after`, at most `limit` of them.

        Args:
            snapshot: the present one if None; else the present one or one that was replaced.
        """
        history = self._history(name, snapshot)
        found = history.measurements[after + 1 : after + 1 + limit]
        rows = tuple(_released(m, with_values=False) for m in found)
        last = after + len(rows)
        more = rows and last + 1 < len(history.measurements)
        return HistoryPage(rows, history.version, last if more else None)

    def measurement(
        self, name: str, number: int, *, snapshot: str | None = None
    ) -> HistoryRow | HistoryTable:
        """One released row or table, with its values; NotFoundError."""
        found = self._history(name, snapshot).measurements[number : number + 1]
        if not found:
            raise NotFoundError("measurement", str(number))
        return _released(found[0], with_values=True)

    def _history(self, name: str, snapshot: str | None) -> FrozenHistory:
        """What was released of a snapshot so far; NotFoundError."""
        opened = self._datasets.refresh(name)
        if snapshot not in (None, opened.meta.snapshot):
            return self._frozen.get(opened.meta, str(snapshot))
        with opened.lock:
            measurements = tuple(opened.replica.measurements)
            return FrozenHistory(measurements, opened.replica.present.n_shown)

    def ledger(
        self, name: str, *, where: Mapping[str, object] | None, attribute: str | None
    ) -> LedgerReport:
        """Where the budget went: the loss of a set of cells, and by an attribute's values.

        Raises:
            QueryError: `where` or `attribute` does not fit the domain.
        """
        domain = self.domain(name)
        cells = _box(domain, where)
        axis = _axis(domain, attribute)
        opened = self._datasets.refresh(name)
        with opened.lock:
            replica = opened.replica
            stamp = replica.present
            loss = replica.ledger.loss_nano(cells)
            by_value = () if axis is None else replica.ledger.loss_by_value(axis)
            n_charges = replica.n_charges
        return LedgerReport(
            limit_nano=stamp.budget.limit_nano,
            spent_nano=stamp.budget.spent_nano,
            remaining_nano=stamp.remaining_nano,
            relation=opened.meta.relation,
            n_charges=n_charges,
            loss_nano=loss,
            by_value=None if axis is None else _named(domain, axis, by_value),
        )

    def audit(self, *, after: int, limit: int) -> AuditPage:
        """Changes of accounts, allowances, datasets and limits above the place `after`."""
        return self._oversight.changes(after=after, limit=limit)

    def audit_charges(self, name: str, *, after: int, limit: int) -> AuditPage:
        """Charges of the dataset's population above the place `after`; NotFoundError."""
        population = self._datasets.meta(name).population
        return self._oversight.charges(population, after=after, limit=limit)

    def spending(self, name: str) -> SpendingReport:
        """Who spent what of the budget of the dataset's population; NotFoundError."""
        return self._oversight.spending(self._datasets.meta(name).population)


def _guard(meta: DatasetMeta, stamp: Stamp) -> Guard | None:
    allowed, loss = meta.guard_nano, stamp.standing.cohort_nano
    if meta.disclosure_cap is None or allowed is None:
        return None
    binds = allowed < stamp.budget.limit_nano
    return Guard(meta.disclosure_cap, allowed, loss, known_at_most(loss), binds)


def _released(found: AnyMeasurement, *, with_values: bool) -> HistoryRow | HistoryTable:
    if isinstance(found, TableMeasurement):
        return HistoryTable(
            id=found.id,
            axes=found.partition.to_document(),
            n_cells=found.partition.n_cells,
            key=found.key,
            scale=found.scale,
            alpha_nano=found.alpha_nano,
            step=str(found.step),
            values=tuple(found.values.ravel().tolist()) if with_values else None,
        )
    return HistoryRow(
        id=found.id,
        terms=found.row.to_document(),
        key=found.key,
        value=float(found.value),
        scale=found.scale,
        alpha_nano=found.alpha_nano,
        step=str(found.step),
    )


def _axis(domain: Domain, attribute: str | None) -> int | None:
    if attribute is None:
        return None
    axis = domain.axis(attribute)
    if axis is None:
        raise QueryError("attribute", "name an attribute of the dataset", attribute)
    return axis


def _named(domain: Domain, axis: int, losses: Sequence[int]) -> dict[str, int]:
    return dict(zip(domain.attributes[axis].value_names, losses, strict=True))


def _box(domain: Domain, where: Mapping[str, object] | None) -> dict[int, list[int]]:
    """The set of cells that `where` names: per axis the allowed values; an absent axis has all."""
    if where is None:
        return {}
    cells = parse_query({"where": where}, domain, name="where")
    for term in cells.terms:
        if term.coefficient != 1 or not all(f.weights.is_indicator for f in term.factors):
            raise QueryError("where", "name a set of cells, without `weights`")
    if cells.is_zero:
        raise QueryError("where", "name a set of cells that is not empty")
    return {f.axis: f.weights.dense.nonzero()[0].tolist() for t in cells.terms for f in t.factors}
