"""Answers from history alone, and the question behind a job. Nothing here spends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qserver.answering.answer import (
    answer_from,
    as_read,
    exact_answer,
    known_total,
    offer_from,
    reading_on,
)
from qserver.answering.decide import to_answer
from qserver.answering.remarks import told
from qserver.answering.workload import KnownNumber, as_known, known_numbers
from qserver.errors import NotEstimableError
from qserver.inference.posterior.curve import DensityPoint, posterior_curve
from qserver.inference.posterior.method_and_prior import AsRead, read
from qserver.query.asking.after_looking import NOTHING_SEEN
from qserver.query.asking.method_and_prior import AS_EVER, Reading
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import primitive
from qserver.query.question import AnyAsked, Question, Workload
from qserver.records.account import Caller
from qserver.records.answer import Answer, JobStatus, Offer, Probability
from qserver.records.statement import EXACT
from qserver.service.ask import job_status, request_of, shown_job
from qserver.service.datasets import OpenDatasets
from qserver.storage.store import Store

# A curve spans this or the asked length, whichever is more.
_LEAST_SPAN = 0.9995
_MOST_SPAN = 1 - 1e-9
_N_POINTS = 161
# Weights for a probability are those of this confidence; the posterior is exact for them.
_PROBABILITY_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Known:
    """The answer that history gives to a question at no cost.

    Args:
        answer: at the asked confidence; its interval may be longer than was asked.
        curve: the posterior, to be drawn; empty for an exact answer.
    """

    answer: Answer
    curve: tuple[DensityPoint, ...]


@dataclass(frozen=True)
class AskedJob:
    """A job with its question or workload."""

    status: JobStatus
    snapshot: str
    asked: AnyAsked


class Insight:
    """Answers of history for one process. Thread-safe.

    Args:
        workloads: replicas for workloads, which may take seconds; questions do not wait for them.
    """

    def __init__(self, store: Store, datasets: OpenDatasets, workloads: OpenDatasets) -> None:
        self._store = store
        self._datasets = datasets
        self._workloads = workloads

    def known(self, name: str, question: Question) -> Known:
        """The answer that history gives to the question now.

        Raises:
            NotEstimableError: history has no estimate of it.
            InputError: the prior says nothing of this query or dataset, or leaves next to nothing.
        """
        row, reading = question.row, question.reading
        opened = self._datasets.refresh(name)
        with opened.lock:
            present = opened.replica.present
            if row.is_zero:
                answer = exact_answer(
                    question, remaining_nano=present.remaining_nano, version=present.n_shown
                )
                return Known(answer, ())
            engine = opened.replica.engine
            estimate = engine.estimate(row, confidence=question.confidence)
            if estimate is None:
                raise NotEstimableError
            question = replace(question, reading=reading_on(opened.replica, row, reading))
            law = engine.to_state(row, estimate, error=reading.error)
        # A law takes long, so the lock is free again.
        answer = answer_from(
            question,
            estimate,
            law.stated(),
            source="history",
            charged_nano=0,
            remaining_nano=present.remaining_nano,
            version=present.n_shown,
        )
        is_met = estimate.half_width <= question.row_half_width
        with opened.lock:
            answer = told(opened.replica, question, answer, is_met=is_met)
        # A choice among many lengthens the interval, and keeps the law.
        found = as_read(replace(question, looking=NOTHING_SEEN), estimate, law.stated())
        return Known(answer, _curve(found, question.confidence))

    def asked(self, job_id: str, reader: Caller) -> AskedJob:
        """A job's state, result or problem, with its question; NotFoundError as `Service.job`."""
        record = shown_job(self._store, job_id, reader)
        request = request_of(record)
        return AskedJob(job_status(record), request.snapshot, request.asked)

    def is_free(self, name: str, asked: Question | Workload) -> bool:
        """Whether history answers everything as exactly as asked."""
        opened = (self._datasets if isinstance(asked, Question) else self._workloads).refresh(name)
        with opened.lock:
            if isinstance(asked, Workload):
                return opened.replica.free_workload(asked) is not None
            return to_answer(opened.replica, asked) is not None

    def offer(self, name: str, query: LinearQuery, *, confidence: float) -> Offer | None:
        """The best free interval at `confidence`, or None."""
        row = primitive(query)
        if row.is_zero:
            return Offer(0.0, 0.0, confidence)
        opened = self._datasets.refresh(name)
        with opened.lock:
            estimate = opened.replica.engine.estimate(row, confidence=confidence)
        return None if estimate is None else offer_from(row, estimate, confidence=confidence)

    def known_numbers(self, name: str, workload: Workload) -> tuple[KnownNumber | None, ...]:
        """The answer of history to each question of a workload, with its ends; or None."""
        opened = self._workloads.refresh(name)
        with opened.lock:
            present = opened.replica.present
            return known_numbers(
                opened.replica.engine,
                workload,
                remaining_nano=present.remaining_nano,
                version=present.n_shown,
            )

    def as_known(self, name: str, workload: Workload) -> tuple[Question | None, ...]:
        """Each question as asked, or as exactly as history knows its number if that is less.

        None where history says nothing finite of it.
        """
        opened = self._workloads.refresh(name)
        with opened.lock:
            return as_known(opened.replica.engine, workload)

    def total(self, name: str) -> int | None:
        """The number of records of a dataset where public; NotFoundError."""
        opened = self._datasets.refresh(name)
        with opened.lock:
            return known_total(opened.replica)

    def probability(
        self,
        name: str,
        query: LinearQuery,
        *,
        low: float,
        high: float,
        reading: Reading = AS_EVER,
    ) -> Probability:
        """P(low <= q <= high) from history alone; raises as `known` does."""
        row = primitive(query)
        opened = self._datasets.refresh(name)
        with opened.lock:
            version = opened.replica.present.n_shown
            if row.is_zero:
                return Probability(float(low <= 0 <= high), version, EXACT)
            estimate = opened.replica.engine.estimate(row, confidence=_PROBABILITY_CONFIDENCE)
            if estimate is None:
                raise NotEstimableError
            reading = reading_on(opened.replica, row, reading)
            law = opened.replica.engine.to_state(row, estimate, error=reading.error)
        known = estimate.posterior.scaled(row.multiplier)
        found = read(law.stated().scaled(row.multiplier), known, reading)
        return Probability(found.posterior.probability_between(low, high), version, found.statement)


def _curve(stated: AsRead, confidence: float) -> tuple[DensityPoint, ...]:
    span = min(max(confidence + (1 - confidence) * 0.9, _LEAST_SPAN), _MOST_SPAN)
    return posterior_curve(stated.posterior, confidence=span, n_points=_N_POINTS)
