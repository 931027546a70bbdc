"""The use cases of the online side: where storage meets inference and planning."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import overload

from qserver.answering.explain import (
    Explained,
    explain_question,
    explain_workload,
    priced,
    priced_by_rows,
)
from qserver.answering.workload import KnownNumber
from qserver.config import Settings
from qserver.errors import NotFoundError
from qserver.query.domain import Domain
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question, Workload
from qserver.query.sealed_periods import as_of
from qserver.query.sql.parser import query_of
from qserver.records.account import HERE, Caller
from qserver.records.answer import (
    Answer,
    DatasetStatus,
    Explanation,
    Guard,
    JobStatus,
    OwnPrice,
    WorkloadAnswer,
    WorkloadExplanation,
    Zcdp,
)
from qserver.records.charge import AnyCharge
from qserver.records.claim import known_at_most
from qserver.records.dataset import DatasetMeta
from qserver.service.ask import SHORT_S, Asking, Idempotency, digest_of, narrowed
from qserver.service.cache.last_used import LastUsed
from qserver.service.cache.looks import Looks
from qserver.service.cache.quantiles import OrderNumbers
from qserver.service.cache.smooth_numbers import SmoothNumbers
from qserver.service.cache.statements import MOST_KEPT, ReadStatements, StatementKey
from qserver.service.datasets import OpenDatasets, SavedViews
from qserver.service.free_answers import Insight
from qserver.service.history import Integrity, ReleasedHistory
from qserver.service.ledger import Allowances, Asker, LedgerViews
from qserver.service.models import ModelService
from qserver.service.quote_notes import StatementNotes
from qserver.service.statement_answers import AnyStatement
from qserver.storage.encoding.queued_requests import Request
from qserver.storage.standings import Stamp
from qserver.storage.store import Store
from qserver.storage.wishes import Wishes

__all__ = ["Idempotency", "Service"]


@dataclass(frozen=True)
class Price:
    """A price in nano-epsilon, and whether it can be paid now."""

    nano: int
    is_payable: bool


class Service:
    """Thread-safe; one per process.

    Args:
        starting_s: how long questions wait for a worker that is not there yet.
        short_s: how long a look at what is known may take before it is a job.
        most_laws: as of Asking.
        clock: seconds, monotonic.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        starting_s: float = 0.0,
        short_s: float = SHORT_S,
        most_laws: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._integrity = Integrity(store, clock=clock)
        self._datasets = OpenDatasets(store, settings)
        self._allowances = Allowances(store)
        # Workloads and prices have replicas of their own: one may take seconds, or half of one, and
        # questions shall not wait.
        self._workloads = OpenDatasets(store, settings)
        self._prices = OpenDatasets(store, settings)
        self._asking = Asking(
            store,
            self._datasets,
            self._workloads,
            settings,
            starting_s=starting_s,
            most_laws=most_laws,
            clock=clock,
            sleep=sleep,
        )
        self.models = ModelService(
            store, self._datasets, self._workloads, self._asking, self._allowances
        )
        self.insight = Insight(store, self._datasets, self._workloads)
        self.smooth = SmoothNumbers(store, self._workloads)
        self.order = OrderNumbers(self._workloads)
        self.looks = Looks(store, self._datasets, short_s=short_s)
        self.history = ReleasedHistory(store, self._datasets)
        self.ledger = LedgerViews(store, self._prices)
        self.saved = SavedViews(store, self._datasets)
        self.notes = StatementNotes(store, self._datasets)
        self.wishes = Wishes(store.client)
        self._explained = LastUsed[
            tuple[str, Stamp, str, frozenset[int] | None], Explained[WorkloadExplanation]
        ](MOST_KEPT)
        self.read_statements = ReadStatements()
        self.kept_statements = LastUsed[StatementKey, AnyStatement](MOST_KEPT)

    def datasets(self) -> list[DatasetStatus]:
        """The public face of every dataset, by name."""
        found = []
        for name in sorted(self._store.datasets()):
            try:
                found.append(self.dataset(name))
            except NotFoundError:
                continue  # detached between the two readings
        return found

    def state(self, name: str) -> Stamp:
        """The facts that every answer on a dataset depends on; one small round trip;
        NotFoundError."""
        return self._datasets.stamp(name)

    def read(self, name: str) -> None:
        """Read what came to a dataset's history, so that what is asked next need not; raises."""
        for datasets in (self._datasets, self._workloads):
            opened = datasets.refresh(name)
            with opened.lock:
                opened.replica.engine.catch_up()

    def is_new(self, name: str, idempotency: Idempotency) -> bool:
        """Whether a key is new; IdempotencyError if it came with another body."""
        return self._asking.asked_before(name, idempotency, wait_s=0) is None

    def dataset(self, name: str) -> DatasetStatus:
        """The public face of a dataset; NotFoundError."""
        stamp = self._datasets.stamp(name)
        meta, budget = self._datasets.meta(name), stamp.shown_budget
        return DatasetStatus(
            name=name,
            population=meta.population,
            snapshot=meta.snapshot,
            domain=meta.domain_document,
            n_cells=meta.domain.n_cells,
            relation=meta.relation,
            records_per_person=meta.records_per_person,
            records_verified=meta.records_verified,
            limit_nano=budget.limit_nano,
            spent_nano=budget.spent_nano,
            remaining_nano=stamp.remaining_nano,
            guard=_guard(meta, stamp),
            claims=self._prices.claims(name, stamp),
            earlier_snapshots=self._store.frozen.ids(meta),
            phi=meta.phi,
            capacity=meta.capacity,
            measure=stamp.measure,
            version=stamp.n_shown,
            worker_alive=self._store.worker_alive(meta.population),
            unit=meta.unit_status,
            periods=meta.sealed_periods(stamp.n_sealed, stamp.n_retired),
            time=meta.time,
            expected=stamp.expected,
            zcdp=_zcdp(meta, stamp),
        )

    def domain(self, name: str, *, at: str = "") -> Domain:
        """The domain of a dataset with its sealed periods, where data arrive over time.

        Args:
            at: the period that was the last sealed one at the time to ask about; '' for now.

        Raises:
            NotFoundError: there is none of this name.
            InputError, PeriodNotSealedError: `at` is no sealed period.
        """
        found = self._datasets.domain(name)
        return as_of(found, at) if at else found

    def within(self, name: str) -> Fraction | None:
        """The owner's default half-length of a count's interval in SQL; or None.

        Raises:
            NotFoundError: there is no dataset of this name.
        """
        return self._datasets.meta(name).domain.within

    def delta(self, name: str) -> float | None:
        """The delta that epsilon is stated at; None under pure privacy and for no dataset."""
        with suppress(NotFoundError):
            if (found := self._datasets.meta(name).delta) is not None:
                return float(found)
        return None

    def parse(self, name: str, document: object, *, at: str = "") -> LinearQuery:
        """The linear query that a structured question, or a text of SQL, means.

        Where data arrive over time it counts the sealed periods alone, and its `as_of` says so.

        Args:
            at: as for `domain`.

        Raises:
            QueryError, CapacityError: as `query_of` does.
            PeriodNotSealedError: it names a period that is not sealed.
        """
        return query_of(document, self.domain(name, at=at), dataset=name)

    @property
    def slot_ms(self) -> int:
        """The publication slot, in milliseconds."""
        return self._settings.slot_ms

    def ready(self) -> None:
        """Return if the store answers, keeps what it acknowledges, and holds all releases.

        Raises:
            StoreError: it does not.
        """
        self._store.check_ready(allow_volatile=self._settings.allow_volatile)
        self._store.check_begun()
        self._integrity.check()

    def ask(
        self,
        name: str,
        question: Question,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
        most_nano: int | None = None,
    ) -> Answer | JobStatus:
        """The answer, or after `wait_s` seconds the job that is finding it.

        Args:
            by: account that asks, and pays where nobody asked the same before.
            most_nano: most that the answer may be charged for; None for its price.

        Raises:
            InputError: a prior says nothing of this query or dataset, or leaves next to nothing.
            AllowanceExhaustedError: the analyst's own allowance or pace cannot pay.
            AtMostError: the price exceeds `most_nano`; `free` is as of the next error.
            BudgetExhaustedError: history does not suffice and the price exceeds what remains;
                its `free` is the best interval that costs nothing, or None.
            NoWorkerError: an answer must be measured and no worker is alive.
            IdempotencyError: the key came with another body before.
            MeasurementError: the measurement failed.
        """
        found = self._asking.ask(
            name, question, wait_s=wait_s, idempotency=idempotency, by=by, most_nano=most_nano
        )
        return narrowed(found, Answer)

    def ask_workload(
        self,
        name: str,
        workload: Workload,
        *,
        wait_s: float,
        idempotency: Idempotency | None = None,
        by: str = "",
        most_nano: int | None = None,
    ) -> WorkloadAnswer | JobStatus:
        """The answers of all questions, or after `wait_s` seconds the job that is finding them.

        All or nothing: the budget pays for the whole. Raises as `ask` does; `free` of
        BudgetExhaustedError and DisclosureGuardError then has an interval, or None, per question.
        """
        found = self._asking.ask(
            name, workload, wait_s=wait_s, idempotency=idempotency, by=by, most_nano=most_nano
        )
        return narrowed(found, WorkloadAnswer)

    @overload
    def known_workload(
        self, name: str, workload: Workload, *, by: str = ""
    ) -> tuple[KnownNumber | None, ...]: ...

    @overload
    def known_workload(
        self, name: str, workload: Workload, *, by: str = "", wait_s: float
    ) -> tuple[KnownNumber | None, ...] | JobStatus: ...

    def known_workload(
        self, name: str, workload: Workload, *, by: str = "", wait_s: float | None = None
    ) -> tuple[KnownNumber | None, ...] | JobStatus:
        """The answers of history to each question, or after `wait_s` seconds the job that computes
        them.

        There is a job where history answers all questions as exactly as they are asked, and that
        takes longer.

        Args:
            wait_s: None where there shall be no job.
        """
        found = self._asking.known(name, workload, wait_s=wait_s, by=by)
        if isinstance(found, JobStatus):
            return found
        if found is None:
            return self.insight.known_numbers(name, workload)
        ends = found.ends or (None,) * len(found.answers)
        return tuple(KnownNumber(*pair) for pair in zip(found.answers, ends, strict=True))

    def free_workload(
        self, name: str, workload: Workload, *, by: str = ""
    ) -> WorkloadAnswer | None:
        """The answer of history to all questions, as `ask_workload` gives it; None without one."""
        return self._asking.free(name, workload, by=by)

    def known_job(
        self, name: str, workload: Workload, *, wait_s: float, by: str = ""
    ) -> JobStatus | None:
        """The job that computes an answer of history, if that takes longer than `wait_s`."""
        found = self._asking.known(name, workload, wait_s=wait_s, by=by)
        return found if isinstance(found, JobStatus) else None

    def workload_before(
        self, name: str, idempotency: Idempotency, *, wait_s: float
    ) -> WorkloadAnswer | JobStatus | None:
        """The answers to the workload asked under a key, or after `wait_s` its job; or None.

        Raises the problem of a job that failed.
        """
        found = self._asking.asked_before(name, idempotency, wait_s=wait_s)
        return None if found is None else narrowed(found, WorkloadAnswer)

    def job(self, job_id: str, *, reader: Caller = HERE, wait_s: float = 0.0) -> JobStatus:
        """A job's state, result or problem, for the account that asked and for owners.

        Args:
            reader: who wants to see it; by default this process itself.
            wait_s: how long to wait for its end, in seconds, where no thread is held by that.

        Raises:
            NotFoundError: there is none of this id, or the reader may not know of it.
        """
        return self._asking.job(job_id, reader=reader, wait_s=wait_s)

    def explain(self, name: str, question: Question, *, by: str = "") -> Explanation:
        """The plan, the price, the free interval and a price curve; spends nothing.

        Args:
            by: account that asks, whose own allowance is shown.
        """
        opened = self._prices.refresh(name)
        with opened.lock:
            explained = explain_question(opened.replica, question)
        own = self._own_price(by, opened.meta, explained.charges)
        return replace(explained.explanation, own=own)

    def explain_workload(
        self, name: str, workload: Workload, *, told: Collection[int] | None = None, by: str = ""
    ) -> WorkloadExplanation:
        """As `explain`, for a workload; also the price of its questions asked one by one.

        Args:
            told: the questions whose free intervals are posteriors; None for all. Others have that
                of the estimate's error.
        """
        opened = self._workloads.refresh(name)
        with opened.lock:
            replica = opened.replica
            chosen = replica.chosen(workload)
            state = opened.meta.snapshot, replica.present
            shown = None if told is None else frozenset(told)
            key = *state, digest_of(Request(name, opened.meta.snapshot, chosen)), shown
            explained = self._explained.get(
                key, lambda: explain_workload(replica, chosen, told=told)
            )
        own = self._own_price(by, opened.meta, explained.charges)
        return replace(explained.explanation, own=own)

    def price(
        self, name: str, workload: Workload, *, by: str = "", enough_nano: int | None = None
    ) -> Price:
        """The price of a workload, and whether the budget, the guard and the asker's ledger allow
        it.

        Args:
            enough_nano: what may be said in place of the price is no less than it, and no more than
                this, since that is found sooner; None for the price.
        """
        opened = self._workloads.refresh(name)
        with opened.lock:
            found = None
            if enough_nano is not None and not self._allowances.bound(by, opened.meta.population):
                found = priced_by_rows(opened.replica, workload)
            if found is None or found.charges is None or found.nano > (enough_nano or 0):
                found = priced(opened.replica, workload)
        if found.charges is None:
            return Price(found.nano, is_payable=False)
        own = self._own_price(by, opened.meta, found.charges)
        return Price(found.nano, is_payable=own is None or own.affordable)

    def _own_price(
        self, by: str, meta: DatasetMeta, charges: Sequence[AnyCharge]
    ) -> OwnPrice | None:
        return self._allowances.price(Asker(by, meta.population), meta.snapshot, charges)


def _zcdp(meta: DatasetMeta, stamp: Stamp) -> Zcdp | None:
    """The unit of a zcdp population's charges; None under pure privacy."""
    if meta.delta is None:
        return None
    budget = stamp.budget
    return Zcdp(float(meta.delta), budget.limit_nano, budget.spent_nano)


def _guard(meta: DatasetMeta, stamp: Stamp) -> Guard | None:
    allowed, loss = meta.guard_nano, stamp.standing.lost_nano
    if meta.disclosure_cap is None or allowed is None:
        return None
    binds = allowed < stamp.budget.limit_nano
    known, shown = known_at_most(loss, meta.law), meta.shown
    return Guard(meta.disclosure_cap, shown.nano(allowed), shown.nano(loss), known, binds)
