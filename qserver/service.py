"""The use cases of the online side: the only place where storage meets inference and planning."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qserver.answer import (
    Answer,
    CurvePoint,
    DatasetStatus,
    Explanation,
    HistoryPage,
    HistoryRow,
    JobStatus,
    LedgerReport,
    Offer,
    PlanRow,
    Probability,
)
from qserver.answering import answer_from, exact_answer, offer_from
from qserver.conditions import parse_query
from qserver.config import Settings
from qserver.domain import Domain
from qserver.errors import (
    BudgetExhaustedError,
    CapacityError,
    NotEstimableError,
    NotFoundError,
    QueryError,
)
from qserver.history import Estimator
from qserver.planning.planner import Plan
from qserver.primitive import Primitive, primitive
from qserver.problems import error_from_problem
from qserver.query import LinearQuery
from qserver.replica import Replica
from qserver.requirement import Requirement
from qserver.storage.records import DatasetMeta, Request, answer_from_json, answer_json
from qserver.storage.store import Stamp, Store

_CURVE = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
_FIRST_WAIT_S = 0.002
_LONGEST_WAIT_S = 0.05


@dataclass(frozen=True)
class Idempotency:
    """A client's idempotency key with the digest of the body it came with."""

    key: str
    body_digest: str


@dataclass
class _Open:
    """A dataset that this process has read, with the lock that guards it."""

    replica: Replica
    lock: threading.Lock


class Service:
    """Thread-safe; one per process."""

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
        self._sleep = sleep
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}

    def datasets(self) -> list[DatasetStatus]:
        """The public face of every dataset, by name."""
        return [self.dataset(name) for name in sorted(self._store.datasets())]

    def dataset(self, name: str) -> DatasetStatus:
        """The public face of a dataset; NotFoundError."""
        meta = self._meta(name)
        stamp = self._stamp(name, meta)
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
            version=stamp.n_shown,
            worker_alive=self._store.worker_alive(meta.population),
        )

    def domain(self, name: str) -> Domain:
        """The domain of a dataset; NotFoundError."""
        return self._meta(name).domain

    def parse(self, name: str, document: object) -> LinearQuery:
        """The linear query that a structured question means; QueryError, CapacityError."""
        return parse_query(document, self.domain(name))

    def version(self, name: str) -> Stamp:
        """What every answer on a dataset depends on; one small round trip."""
        return self._stamp(name, self._meta(name))

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
    ) -> Answer | JobStatus:
        """The answer, or after `wait_s` seconds the job that is finding it.

        Raises:
            BudgetExhaustedError: history does not suffice and the price exceeds what remains;
                its `free` is the best interval available for nothing, or None.
            NoWorkerError: an answer must be measured and no worker is alive.
            IdempotencyError: the key came with another body before.
            MeasurementError: the measurement failed.
        """
        meta = self._meta(name)
        if idempotency is not None:
            bound = self._store.bind(meta, key=idempotency.key, body_digest=idempotency.body_digest)
            if bound.outcome:
                return self._outcome(json.loads(bound.outcome), wait_s)
        found = self._ask(meta, query, requirement, wait_s)
        if idempotency is not None:
            outcome = _outcome_json(found)
            self._store.bind(
                meta, key=idempotency.key, body_digest=idempotency.body_digest, outcome=outcome
            )
        return self._wait(found.id, wait_s) if isinstance(found, JobStatus) else found

    def explain(self, name: str, query: LinearQuery, requirement: Requirement) -> Explanation:
        """Plan, price, what is available for nothing, and a price curve; spends nothing."""
        row = primitive(query)
        opened = self._opened(name)
        with opened.lock:
            stamp = opened.replica.refresh(self._store)
            plan = opened.replica.plan(row, requirement)
            curve = tuple(
                _curve_point(opened.replica, row, requirement, factor) for factor in _CURVE
            )
        remaining = stamp.budget.remaining_nano
        return Explanation(
            kind=plan.kind,
            price_nano=plan.price_nano,
            remaining_nano=remaining,
            affordable=plan.price_nano <= remaining,
            rows=tuple(PlanRow(r.row.to_document(), r.alpha_nano, r.key) for r in plan.rows),
            free=_offer(row, plan, requirement),
            curve=curve,
            sensitivity=float(row.sensitivity),
            sensitivity_exact=row.exact,
            version=stamp.n_shown,
        )

    def probability(self, name: str, query: LinearQuery, *, low: float, high: float) -> Probability:
        """P(low <= q <= high) from history alone; NotEstimableError."""
        row = primitive(query)
        opened = self._opened(name)
        with opened.lock:
            stamp = opened.replica.refresh(self._store)
            if row.is_zero:
                return Probability(float(low <= 0 <= high), stamp.n_shown)
            estimate = opened.replica.engine.estimate(row, confidence=0.95)
        if estimate is None:
            raise NotEstimableError
        posterior = estimate.posterior.scaled(row.multiplier)
        return Probability(posterior.probability_between(low, high), stamp.n_shown)

    def history(self, name: str, *, after: int, limit: int) -> HistoryPage:
        """Released rows with an id above `after`, at most `limit` of them."""
        opened = self._opened(name)
        with opened.lock:
            stamp = opened.replica.refresh(self._store)
            found = opened.replica.measurements[after + 1 : after + 1 + limit]
            total = len(opened.replica.measurements)
        rows = tuple(
            HistoryRow(
                id=m.id,
                terms=m.row.to_document(),
                key=m.key,
                value=float(m.value),
                scale=m.scale,
                alpha_nano=m.alpha_nano,
                step=str(m.step),
            )
            for m in found
        )
        last = after + len(rows)
        return HistoryPage(rows, stamp.n_shown, last if rows and last + 1 < total else None)

    def ledger(
        self, name: str, *, where: Mapping[str, object] | None, attribute: str | None
    ) -> LedgerReport:
        """Where the budget went: the loss of a set of cells, and by an attribute's values.

        Raises:
            QueryError: `where` or `attribute` does not fit the domain.
        """
        meta = self._meta(name)
        cells = _box(meta.domain, where)
        axis = None if attribute is None else meta.domain.axis(attribute)
        if attribute is not None and axis is None:
            raise QueryError("attribute", "name an attribute of the dataset", attribute)
        opened = self._opened(name)
        with opened.lock:
            stamp = opened.replica.refresh(self._store)
            ledger = opened.replica.ledger
            loss = ledger.loss_nano(cells)
            by_value = None if axis is None else ledger.loss_by_value(axis)
            n_charges = opened.replica.n_charges
        names = () if axis is None else meta.domain.attributes[axis].value_names
        return LedgerReport(
            limit_nano=stamp.budget.limit_nano,
            spent_nano=stamp.budget.spent_nano,
            relation=meta.relation,
            n_charges=n_charges,
            loss_nano=loss,
            by_value=None if by_value is None else dict(zip(names, by_value, strict=True)),
        )

    def job(self, job_id: str) -> JobStatus:
        """A job's state, result or problem; NotFoundError."""
        record = self._store.job(job_id)
        return JobStatus(
            id=record.id,
            state=record.state,
            dataset=record.dataset,
            result=answer_from_json(record.result) if record.result else None,
            problem=json.loads(record.problem) if record.problem else None,
        )

    def _ask(
        self, meta: DatasetMeta, query: LinearQuery, requirement: Requirement, wait_s: float
    ) -> Answer | JobStatus:
        row = primitive(query)
        opened = self._opened(meta.name)
        with opened.lock:
            stamp = opened.replica.refresh(self._store)
            remaining = stamp.budget.remaining_nano
            if row.is_zero:
                return exact_answer(requirement, remaining_nano=remaining, version=stamp.n_shown)
            plan = opened.replica.plan(row, requirement)
        if plan.kind == "free" and plan.estimate is not None:
            self._remember(meta, row, plan)
            return answer_from(
                row,
                requirement,
                plan.estimate,
                source="history",
                charged_nano=0,
                remaining_nano=remaining,
                version=stamp.n_shown,
            )
        if plan.price_nano > remaining:
            raise _exhausted(row, plan, requirement, remaining)
        request = Request(meta.name, meta.snapshot, query, requirement)
        submission = self._store.submit(
            request,
            population=meta.population,
            digest=_digest(request, row),
            max_queue=self._settings.max_queue,
            need_worker=wait_s > 0,
        )
        return JobStatus(submission.job, "queued", meta.name)

    def _remember(self, meta: DatasetMeta, row: Primitive, plan: Plan) -> None:
        """Keep the weights of a free answer, so that it stays free whatever comes after."""
        estimate = plan.estimate
        if estimate is None or estimate.method in ("direct", "stored"):
            return
        self._store.remember(meta, Estimator(row.key, estimate.weights))

    def _wait(self, job_id: str, wait_s: float) -> Answer | JobStatus:
        deadline = self._clock() + wait_s
        pause = _FIRST_WAIT_S
        while self._store.job_state(job_id) not in ("done", "failed"):
            left = deadline - self._clock()
            if left <= 0:
                return self.job(job_id)
            self._sleep(min(pause, left))
            pause = min(pause * 1.2, _LONGEST_WAIT_S)
        status = self.job(job_id)
        if status.result is not None:
            return status.result
        raise error_from_problem(status.problem or {})

    def _outcome(self, plain: Mapping[str, object], wait_s: float) -> Answer | JobStatus:
        if "job" in plain:
            return self._wait(str(plain["job"]), wait_s)
        return answer_from_json(str(plain["answer"]))

    def _meta(self, name: str) -> DatasetMeta:
        return self._opened(name).replica.meta

    def _opened(self, name: str) -> _Open:
        with self._lock:
            found = self._open.get(name)
        if found is not None:
            return found
        meta = self._store.meta(name)
        fresh = _Open(Replica(meta, self._settings, shown_only=True), threading.Lock())
        with self._lock:
            return self._open.setdefault(name, fresh)

    def _stamp(self, name: str, meta: DatasetMeta) -> Stamp:
        try:
            return self._store.stamp(meta)
        except NotFoundError:
            # Detached, or attached anew: what this process has read is of no use any more.
            with self._lock:
                self._open.pop(name, None)
            return self._store.stamp(self._meta(name))


def _outcome_json(found: Answer | JobStatus) -> str:
    if isinstance(found, JobStatus):
        return json.dumps({"job": found.id})
    return json.dumps({"answer": answer_json(found)})


def _digest(request: Request, row: Primitive) -> str:
    """Digest that identical questions share: equal vectors, however they were written."""
    parts = [
        request.dataset,
        request.snapshot,
        row.key,
        str(row.multiplier),
        repr(request.requirement.length),
        repr(request.requirement.confidence),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _exhausted(
    row: Primitive, plan: Plan, requirement: Requirement, remaining_nano: int
) -> BudgetExhaustedError:
    error = BudgetExhaustedError(price_nano=plan.price_nano, remaining_nano=remaining_nano)
    error.free = _offer(row, plan, requirement)
    return error


def _offer(row: Primitive, plan: Plan, requirement: Requirement) -> Offer | None:
    if row.is_zero:
        return Offer(0.0, 0.0, requirement.confidence)
    if plan.estimate is None:
        return None
    return offer_from(row, plan.estimate, confidence=requirement.confidence)


def _curve_point(
    replica: Replica, row: Primitive, requirement: Requirement, factor: float
) -> CurvePoint:
    length = requirement.length * factor
    try:
        plan = replica.plan(row, Requirement(length, requirement.confidence))
    except CapacityError:
        return CurvePoint(length, None)
    return CurvePoint(length, plan.price_nano)


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
    return {
        f.axis: f.weights.dense.nonzero()[0].tolist() for t in cells.terms for f in t.factors
    }
