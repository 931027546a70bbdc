"""What people look at beside answers: a posterior drawn, a job's question, spending over time.

Nothing here spends anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from qserver.answering.answer import answer_from, exact_answer
from qserver.errors import NotEstimableError
from qserver.inference.engine import RowEstimate
from qserver.inference.posterior.curve import DensityPoint, posterior_curve
from qserver.ledger.account_ledger import ChargeEntry, OwnLedger, attached_metas
from qserver.ledger.forecast import BurnDown, SpendPoint, forecast, thinned
from qserver.query.linear import LinearQuery
from qserver.query.question import AnyAsked, Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, JobStatus
from qserver.records.dataset import DatasetMeta
from qserver.service.ask import job_status
from qserver.service.datasets import OpenDatasets
from qserver.storage.audit import AuditLog
from qserver.storage.encoding.requests import Request
from qserver.storage.store import Store

# A curve spans this or what was asked, whichever is more.
_LEAST_SPAN = 0.9995
_MOST_SPAN = 1 - 1e-9
_N_POINTS = 161
_MOST_SPEND_POINTS = 400


@dataclass(frozen=True)
class Known:
    """What history says of a question, for nothing.

    Args:
        answer: at the asked confidence; its interval may be longer than was asked.
        curve: the posterior, to be drawn; empty for an exact answer.
    """

    answer: Answer
    curve: tuple[DensityPoint, ...]


@dataclass(frozen=True)
class AskedJob:
    """A job with the question, or the workload, behind it."""

    status: JobStatus
    snapshot: str
    asked: AnyAsked


class Insight:
    """The readings of one process. Thread-safe.

    Args:
        wall_clock: Unix time in seconds.
    """

    def __init__(
        self,
        store: Store,
        datasets: OpenDatasets,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._datasets = datasets
        self._wall_clock = wall_clock
        self._spent: dict[str, _SpentSoFar] = {}
        self._lock = threading.Lock()

    def known(self, name: str, query: LinearQuery, requirement: Requirement) -> Known:
        """What history says of the query now.

        Raises:
            NotEstimableError: nothing.
        """
        question = Question(query, requirement)
        row = question.row
        opened = self._datasets.refresh(name)
        with opened.lock:
            present = opened.replica.present
            if row.is_zero:
                answer = exact_answer(
                    requirement, remaining_nano=present.remaining_nano, version=present.n_shown
                )
                return Known(answer, ())
            engine = opened.replica.engine
            estimate = engine.estimate(row, confidence=requirement.confidence)
        if estimate is None:
            raise NotEstimableError
        answer = answer_from(
            question,
            estimate,
            source="history",
            charged_nano=0,
            remaining_nano=present.remaining_nano,
            version=present.n_shown,
        )
        return Known(answer, _curve(estimate, row.multiplier, requirement.confidence))

    def asked(self, job_id: str) -> AskedJob:
        """A job's state, result or problem, with what it asks; NotFoundError."""
        record = self._store.job(job_id)
        request = Request.from_json(record.request)
        return AskedJob(job_status(record), request.snapshot, request.asked)

    def burn_down(self, name: str) -> BurnDown:
        """How the budget of the dataset's population went down; NotFoundError.

        The first call reads the whole log of charges, a later one what came since.
        """
        meta = self._datasets.meta(name)
        stamp = self._datasets.stamp(name)
        with self._lock:
            spent = self._spent.setdefault(meta.population, _SpentSoFar())
        points = spent.read(self._store.audit, meta.population)
        now, budget = int(self._wall_clock()), stamp.budget
        return BurnDown(
            points=thinned(points, _MOST_SPEND_POINTS),
            now=now,
            limit_nano=budget.limit_nano,
            spent_nano=budget.spent_nano,
            forecast=forecast(
                points,
                now=now,
                spent_nano=budget.spent_nano,
                remaining_nano=budget.remaining_nano,
            ),
        )


@dataclass
class _SpentSoFar:
    """A population's charges added up in their order, and how many were read."""

    metas: dict[str, DatasetMeta] = field(default_factory=dict)
    n_charges: int = 0
    n_changes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        # The ledger of one account, where all charges count as that account's.
        self._ledger = OwnLedger(self.metas)

    def read(self, log: AuditLog, population: str) -> tuple[SpendPoint, ...]:
        """What had been spent after each job, what is new included."""
        with self.lock:
            news = log.news(
                population, n_charges=self.n_charges, n_changes=self.n_changes, account=""
            )
            self.metas.update(attached_metas(news.changes))
            self._ledger.extend(map(ChargeEntry.of, news.charges))
            self.n_charges += len(news.charges)
            self.n_changes += len(news.changes)
            return tuple(SpendPoint(mark.at, mark.spent_nano) for mark in self._ledger.marks)


def _curve(
    estimate: RowEstimate, multiplier: Fraction, confidence: float
) -> tuple[DensityPoint, ...]:
    span = min(max(confidence + (1 - confidence) * 0.9, _LEAST_SPAN), _MOST_SPAN)
    posterior = estimate.posterior.scaled(multiplier)
    return posterior_curve(posterior, confidence=span, n_points=_N_POINTS)
