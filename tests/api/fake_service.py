"""A service in memory: it parses for real, answers constants, and fails where a test says so."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from math import ceil
from typing import Any

from qserver.answering.answer import public_total
from qserver.answering.smooth_numbers import SmoothKnown, SmoothOf
from qserver.api.access import Credentials
from qserver.errors import IdempotencyError, NotFoundError, QServerError, QueryError
from qserver.query.asking.method_and_prior import AS_EVER, Reading
from qserver.query.asking.structured_question import parse_query
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_to_document
from qserver.query.linear_query import LinearQuery
from qserver.query.question import Question, Workload
from qserver.query.sql.parser import query_of
from qserver.records.account import HERE, Allowance, Caller, Role
from qserver.records.answer import (
    Answer,
    BothChoices,
    CurvePoint,
    DatasetStatus,
    Explanation,
    FactorPoint,
    Guard,
    JobStatus,
    LedgerReport,
    ModelAnswer,
    Offer,
    Probability,
    WorkloadAnswer,
    WorkloadExplanation,
)
from qserver.records.charge import NANO, Standing
from qserver.records.history import HistoryPage, HistoryRow, HistoryTable
from qserver.records.plan import PlannedRow
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw
from qserver.records.statement import ClaimStatus
from qserver.records.unit import UnitStatus
from qserver.service.cache.last_used import LastUsed
from qserver.service.cache.statements import ReadStatements, StatementKey
from qserver.service.ledger import AccountSpending, AuditEntry, AuditPage, SpendingReport
from qserver.service.quote_notes import StatementNote
from qserver.service.service import Idempotency, Price
from qserver.service.statement_answers import AnyStatement
from qserver.storage.standings import Budget, Stamp
from tests.api.fake_answers import DOMAIN, FREE, MANY, PLANNED, WIDE_CELLS, released
from tests.api.fake_models import LEARNT, OWN_PRICE, FakeModels


class NothingKnown:
    """What is known of smooth numbers."""

    def known(self, one: SmoothOf, *, missed: float | None = None) -> SmoothKnown:
        assert missed is None
        return SmoothKnown.unknown(len(one.queries), -math.inf)

    def law(self, _one: SmoothOf) -> None:
        return None


class NoLooks:
    """Looks that take no time."""

    def job(self, *_: object, **__: object) -> None:
        return None


@dataclass
class FakeService:
    """Stands in for the service; every field may be set by a test.

    Args:
        failures: the error that a method raises, by the method's name.
        outcome: what `ask` returns; many: what `ask_workload` returns.
        known: what `offer` returns; learnt: what learning a model returns.
        at_delta: at which epsilon is shown.
        stamp: how many events `version` says there are.
        calls: the arguments of each call, by the method's name.
    """

    failures: dict[str, Exception] = field(default_factory=dict)
    outcome: Answer | JobStatus = FREE
    many: WorkloadAnswer | JobStatus = MANY
    known: Offer | None = None
    learnt: ModelAnswer | JobStatus = LEARNT
    stamp: int = 7
    at_delta: float | None = None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    jobs: dict[str, JobStatus] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    names: tuple[str, ...] = ("adult", "wide")
    role: Role = "owner"

    @property
    def models(self) -> FakeModels:
        """Its models."""
        return FakeModels(self)

    @property
    def insight(self) -> FakeService:
        """Itself, which has the methods of this part, too."""
        return self

    history = ledger = notes = smooth = insight

    @property
    def looks(self) -> NoLooks:
        """Its looks."""
        return NoLooks()

    def renew(self) -> None:
        """Be as new, but for a stamp that moves, so that nothing is cached."""
        fresh = FakeService(stamp=self.stamp + 1)
        for item in fields(FakeService):
            setattr(self, item.name, getattr(fresh, item.name))

    def calls_of(self, method: str) -> list[dict[str, Any]]:
        """The arguments of each call of one method."""
        return [arguments for name, arguments in self.calls if name == method]

    def datasets(self) -> list[DatasetStatus]:
        self._enter("datasets")
        return [self._status(name) for name in self.names]

    def dataset(self, name: str) -> DatasetStatus:
        self._enter("dataset", name)
        return self._status(name)

    @property
    def kept_statements(self) -> LastUsed[StatementKey, AnyStatement]:
        """Nothing is kept."""
        return LastUsed(0)

    @property
    def read_statements(self) -> ReadStatements:
        """Each text is read anew."""
        return ReadStatements()

    def state(self, name: str) -> Stamp:
        self._enter("state", name)
        return Stamp(Budget(0, 0, 0), name, self.stamp, Standing(0, 0, 0, 0))

    def is_new(self, name: str, idempotency: Idempotency) -> bool:
        self._enter("is_new", name, idempotency=idempotency)
        return True

    def domain(self, name: str, *, at: str = "") -> Domain:
        self._enter("domain", name, at=at)
        return DOMAIN

    def within(self, name: str) -> Fraction | None:
        self._enter("within", name)
        return DOMAIN.within

    def delta(self, name: str) -> float | None:
        assert name
        return self.at_delta

    def offer(self, name: str, query: LinearQuery, *, confidence: float) -> Offer | None:
        self._enter("offer", name, query=query, confidence=confidence)
        return self.known

    def view(self, _name: str, _ones: Sequence[SmoothOf]) -> NothingKnown:
        return NothingKnown()

    def price_nano(self, _name: str, loss: float) -> int:
        return ceil(loss * NANO)

    def most_records(self, _name: str) -> float:
        return math.inf

    def is_free(self, name: str, asked: Question | Workload) -> bool:
        self._enter("is_free", name, asked=asked)
        return False

    def law(self, name: str) -> NoiseLaw:
        self._enter("law", name)
        return LAPLACE

    def total(self, name: str) -> int | None:
        self._enter("total", name)
        return public_total(self.known)

    def parse(self, name: str, document: object, *, at: str = "") -> LinearQuery:
        self._enter("parse", name, at=at)
        return query_of(document, DOMAIN, dataset=name)

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
        self._enter(
            "ask",
            name,
            query=question.query,
            requirement=question.requirement,
            wait_s=wait_s,
            measure=question.measure,
            looking=question.looking,
            reading=question.reading,
            key=idempotency,
            by=by,
        )
        if idempotency is not None:
            bound = self.keys.setdefault((name, idempotency.key), idempotency.body_digest)
            if bound != idempotency.body_digest:
                raise IdempotencyError("The key came with another body before.")
        return self.outcome

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
        self._enter("ask_workload", name, workload=workload, wait_s=wait_s, key=idempotency, by=by)
        return self.many

    def workload_before(
        self, name: str, idempotency: Idempotency, *, wait_s: float
    ) -> WorkloadAnswer | JobStatus | None:
        self._enter("workload_before", name, key=idempotency, wait_s=wait_s)
        return None

    def known_numbers(self, name: str, workload: Workload) -> list[None]:
        self._enter("known_numbers", name, workload=workload)
        return [None for _ in workload.questions]

    def known_workload(
        self, name: str, workload: Workload, *, by: str = "", wait_s: float | None = None
    ) -> list[None]:
        self._enter("known_workload", name, workload=workload, by=by, wait_s=wait_s)
        return [None for _ in workload.questions]

    def free_workload(self, name: str, workload: Workload, *, by: str = "") -> None:
        self._enter("free_workload", name, workload=workload, by=by)

    def known_job(self, name: str, workload: Workload, *, wait_s: float, by: str = "") -> None:
        self._enter("known_job", name, workload=workload, wait_s=wait_s, by=by)

    def as_known(self, name: str, workload: Workload) -> list[None]:
        self._enter("as_known", name, workload=workload)
        return [None for _ in workload.questions]

    def explain_workload(
        self, name: str, workload: Workload, *, told: Collection[int] | None = None, by: str = ""
    ) -> WorkloadExplanation:
        self._enter("explain_workload", name, workload=workload, by=by)
        return WorkloadExplanation(
            kind="blocks",
            price_nano=60_000_001,
            most_nano=60_000_001,
            price_apart_nano=120_000_002,
            remaining_nano=1_234_567,
            affordable=False,
            rows=(),
            tables=(PLANNED,),
            free=(Offer(-3.5, 300.25, 0.95), None),
            curve=(FactorPoint(0.5, None), FactorPoint(1.0, 60_000_001)),
            measure=BothChoices("auto", 60_000_001, 60_000_001, ""),
            simultaneous=None,
            version=7,
        )

    def price(
        self, name: str, workload: Workload, *, by: str = "", enough_nano: int | None = None
    ) -> Price:
        self._enter("price", name, workload=workload, by=by, enough_nano=enough_nano)
        return Price(60_000_001, is_payable=True)

    def of(self, name: str, digest: str) -> None:
        self._enter("of", name, digest=digest)

    def keep(self, name: str, digest: str, note: StatementNote) -> None:
        self._enter("keep", name, digest=digest, note=note)

    def explain(self, name: str, question: Question, *, by: str = "") -> Explanation:
        self._enter(
            "explain",
            name,
            query=question.query,
            requirement=question.requirement,
            measure=question.measure,
            looking=question.looking,
            by=by,
        )
        return Explanation(
            kind="fresh",
            price_nano=60_000_001,
            most_nano=60_000_001,
            remaining_nano=1_234_567,
            affordable=False,
            rows=(PlannedRow(question.query, "k", 60_000_001, Fraction(1, 4)),),
            tables=(PLANNED,),
            free=Offer(-3.5, 300.25, 0.95),
            curve=(CurvePoint(50.0, None), CurvePoint(100.0, 60_000_001)),
            measure=BothChoices(
                "only_this", 60_000_001, 90_000_000, "1 table: age (2 cells)", 70_000_000
            ),
            sensitivity=1.0,
            sensitivity_exact=True,
            version=7,
            own=OWN_PRICE,
        )

    def probability(
        self,
        name: str,
        query: LinearQuery,
        *,
        low: float,
        high: float,
        reading: Reading = AS_EVER,
    ) -> Probability:
        self._enter("probability", name, query=query, low=low, high=high, reading=reading)
        return Probability(0.75, 7)

    def page(
        self, name: str, *, after: int, limit: int, snapshot: str | None = None
    ) -> HistoryPage:
        self._enter("page", name, after=after, limit=limit, snapshot=snapshot)
        ids = range(after + 1, min(after + 1 + limit, 5))
        rows = tuple(released(i) for i in ids)
        return HistoryPage(rows, 5, ids[-1] if rows and ids[-1] < 4 else None)

    def measurement(
        self, name: str, number: int, *, snapshot: str | None = None
    ) -> HistoryRow | HistoryTable:
        self._enter("measurement", name, number=number, snapshot=snapshot)
        if number > 4:
            raise NotFoundError("measurement", str(number))
        found = released(number)
        return replace(found, values=(40.5, 1.25)) if isinstance(found, HistoryTable) else found

    def loss(
        self, name: str, *, where: Mapping[str, object] | None, attribute: str | None
    ) -> LedgerReport:
        self._enter("loss", name, where=where, attribute=attribute)
        parse_query({"where": where or {}}, DOMAIN, name="where")
        axis = None if attribute is None else DOMAIN.axis(attribute)
        if attribute is not None and axis is None:
            raise QueryError("attribute", "name an attribute of the dataset", attribute)
        values = () if axis is None else DOMAIN.attributes[axis].value_names
        return LedgerReport(
            limit_nano=10**9,
            spent_nano=60_000_001,
            remaining_nano=939_999_999,
            relation="add-remove",
            n_charges=1,
            loss_nano=60_000_001,
            by_value=dict.fromkeys(values, 60_000_001) if attribute else None,
        )

    def changes(self, *, after: int, limit: int) -> AuditPage:
        self._enter("changes", after=after, limit=limit)
        return _audit_page(after, limit)

    def charges(self, name: str, *, after: int, limit: int) -> AuditPage:
        self._enter("charges", name, after=after, limit=limit)
        return _audit_page(after, limit)

    def spending(self, name: str) -> SpendingReport:
        self._enter("spending", name)
        bound = Allowance(limit_nano=10**9, pace_nano=None)
        ann = AccountSpending("ann", 60_000_001, 1, 1, 1_800_000_000, bound)
        ben = AccountSpending("ben", 0, 0, 0, None, Allowance())
        return SpendingReport("people", 10**9, 60_000_001, (ann, ben))

    def job(self, job_id: str, *, reader: Caller = HERE, wait_s: float = 0.0) -> JobStatus:
        self._enter("job", reader=reader)
        if job_id not in self.jobs:
            raise NotFoundError("job", job_id)
        return self.jobs[job_id]

    def ready(self) -> None:
        self._enter("ready")

    def fail(self, method: str, error: Exception) -> None:
        """Let a method raise from now on."""
        self.failures[method] = error

    def enter(self, method: str, name: str | None = None, **arguments: Any) -> None:
        """Record a call of a part of the service, and fail where a test says so."""
        self._enter(method, name, **arguments)

    def _enter(self, method: str, name: str | None = None, **arguments: Any) -> None:
        self.calls.append((method, {"name": name, **arguments}))
        if method in self.failures:
            raise self.failures[method]
        if name is not None and name not in self.names:
            raise NotFoundError("dataset", name)

    def _status(self, name: str) -> DatasetStatus:
        return DatasetStatus(
            name=name,
            population="people",
            snapshot="5f0c",
            domain=domain_to_document(DOMAIN),
            n_cells=WIDE_CELLS if name == "wide" else DOMAIN.n_cells,
            relation="add-remove",
            records_per_person=1,
            records_verified=False,
            limit_nano=10**9,
            spent_nano=60_000_001,
            remaining_nano=939_999_999,
            guard=Guard(0.5, 1_098_612_288, 60_000_001, 0.03, binds=False),
            claims=(ClaimStatus("women", {"where": {"sex": "Female"}}, 10.0, 0.5, 0.26),),
            earlier_snapshots=("41aa",),
            phi=0.25,
            capacity=50_000 if name == "adult" else None,
            measure="auto",
            version=7,
            worker_alive=name == "adult",
            unit=UnitStatus("person", 2, "any-period", "a person") if name == "wide" else None,
            expected=2_000 if name == "adult" else 0,
        )


def _audit_page(after: int, limit: int) -> AuditPage:
    """A page of a log of three entries."""
    places = range(after + 1, min(after + 1 + limit, 3))
    entries = tuple(AuditEntry(i, '{"kind": "x", "at": 1}', "ab" * 32) for i in places)
    return AuditPage(entries, places[-1] if places and places[-1] < 2 else None)


@dataclass(frozen=True)
class FakeAccess:
    """Admits `tester` in the service's role, unless the service is told to fail at `admit`."""

    is_open = True

    service: FakeService

    def admit(self, credentials: Credentials) -> Caller:
        if "admit" in self.service.failures:
            raise self.service.failures["admit"]
        return Caller("tester", self.service.role, "")


class BrokenTestError(QServerError):
    """An error of a code that HTTP does not know."""

    code = "unheard_of"
