"""The end of each job of a group, in the state after the jobs before it.

Refine what was paid and is longer than asked: the next round of a job, and what all rounds cost.

A price is for the asked length of the estimate's error. Given what released answers disagree about,
the interval may be longer. Then the job's answer is bought anew with a shorter error, by a job of
its own that is charged and drawn as any other, until the interval is as short as asked or what was
quoted is spent. All of it follows from released answers and public facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from qserver.answering.decide import Free, free_answer, offered
from qserver.answering.remarks import DISAGREEING, is_refined, longer, room_nano
from qserver.answering.replica import Replica
from qserver.answering.workload import borne
from qserver.errors import (
    BudgetExhaustedError,
    DisclosureGuardError,
    MeasurementError,
    QServerError,
)
from qserver.planning.holdings import estimate_of
from qserver.query.question import ModelAsked, Question
from qserver.query.requirement import MIN_LENGTH
from qserver.records.answer import Answer, AnyAnswer, ModelAnswer, WorkloadAnswer, dearest
from qserver.records.claim import ClaimGuardError
from qserver.records.problem import problem_from_error
from qserver.storage.encoding.jobs import answer_json
from qserver.storage.encoding.queued_requests import Request, Reservation, Tightened, events_of
from qserver.storage.keys import next_round
from qserver.storage.queue import Ended, Outcome, Taken
from qserver.storage.spend import SpendingStore
from worker.constants import WORKER
from worker.journal.sections import Drawn
from worker.spending.group.plan import Decided, Failed, FromHistory, Spend
from worker.spending.group.replicas import Replicas
from worker.spending.reservation import answer_spent


def next_request(replica: Replica, reservation: Reservation, answer: AnyAnswer) -> Request | None:
    """The request that refines the answer of a paid job; None if it is as short as asked.

    None as well after the last round, where nothing is left of the quote, and where a choice or all
    intervals at once make it longer.

    Args:
        answer: by the replica, which has read the release.
    """
    request = reservation.request
    pairs = _refinable(request, answer)
    most, charged = _most_nano(reservation), _charged_nano(request) + reservation.price_nano
    if not pairs or most <= 0 or not next_round(reservation.job):
        return None
    planned = [question.requirement.length for question in request.to_plan.questions]
    lengths = [
        _tightened(replica, question, one, at_most)
        for (question, one), at_most in zip(pairs, planned, strict=True)
    ]
    if lengths == planned or min(lengths) < MIN_LENGTH:
        return None
    sources = tuple(one.source for _, one in pairs)
    return replace(request, tightened=Tightened(tuple(lengths), sources, charged, most))


def of_all_rounds(request: Request, answer: AnyAnswer) -> AnyAnswer:
    """The answer of a round with the cost and effort of all rounds so far."""
    before = request.tightened
    if before is None or isinstance(answer, ModelAnswer):
        return answer
    charged = answer.charged_nano + before.charged_nano
    if isinstance(answer, Answer):
        source = dearest([answer.source, *before.sources])
        return replace(answer, source=source, charged_nano=charged)
    answers = [
        replace(one, source=dearest([one.source, earlier]))
        for one, earlier in zip(answer.answers, before.sources, strict=True)
    ]
    return replace(answer, answers=borne(answers, charged), charged_nano=charged)


def _refinable(request: Request, answer: AnyAnswer) -> Sequence[tuple[Question, Answer]]:
    """Questions and answers, where disagreements may have one refined."""
    asked = request.asked
    if isinstance(asked, ModelAsked) or isinstance(answer, ModelAnswer) or not is_refined(asked):
        return ()
    answers = answer.answers if isinstance(answer, WorkloadAnswer) else (answer,)
    return list(zip(asked.questions, answers, strict=True))


def _tightened(replica: Replica, question: Question, answer: Answer, planned: float) -> float:
    """The length to plan for: shorter by the interval's excess."""
    found = longer(question, answer)
    if found is None or found.by != DISAGREEING:
        return planned
    estimate = estimate_of(replica.engine, question)
    if estimate is None:
        return planned
    own = question.requirement.length * estimate.half_width / question.row_half_width
    return min(planned, own) * found.asked / found.reached * WORKER.refining_share


def _most_nano(reservation: Reservation) -> int:
    """The most that the rounds after this one may be charged."""
    request, price = reservation.request, reservation.price_nano
    if request.tightened is not None:
        return request.tightened.most_nano - price
    if isinstance(request.asked, ModelAsked):
        return 0
    room = room_nano(request.asked, price, n_history=reservation.n_history)
    return room if request.most_nano is None else min(room, request.most_nano - price)


def _charged_nano(request: Request) -> int:
    return 0 if request.tightened is None else request.tightened.charged_nano


class Answers:
    """Answers jobs on the replicas, which follow every release; for one thread."""

    def __init__(self, replicas: Replicas, writer: SpendingStore) -> None:
        self._replicas = replicas
        self._models = writer.models

    def ending(self, one: Decided, drawn: Mapping[str, Drawn]) -> Ended | None:
        """The end of one job of a group; None if it must be planned again."""
        if isinstance(one, Failed):
            return failed(one.taken, self._told(one))
        replica = self._replicas.get(one.request)
        if isinstance(one, Spend):
            found = drawn.get(one.taken.job)
            if found is None:
                raise MeasurementError
            replica.follow_release(events_of(found.reservation, found.indices))
            answer = answer_spent(replica, found.reservation)
            after = next_request(replica, found.reservation, answer.answer)
            refines = "" if after is None else after.to_json()
            return self.succeeded(one.taken, one.request, answer, keep_s=0, refines=refines)
        free = one.found or _free_then(replica, one)
        if free is None:
            return None
        return self.succeeded(one.taken, one.request, free, keep_s=WORKER.job_keep_s)

    def _told(self, one: Failed) -> QServerError:
        """The error of a failed job, with the answer of history after the draws."""
        error, refused = one.error, one.refused
        if refused is None or isinstance(refused.asked, ModelAsked):
            return error
        if isinstance(error, BudgetExhaustedError | DisclosureGuardError | ClaimGuardError):
            error.free = offered(self._replicas.get(refused), refused.asked)
        return error

    def succeeded(
        self, taken: Taken, request: Request, found: Free, *, keep_s: int, refines: str = ""
    ) -> Ended:
        """The end of a job with this answer.

        Args:
            keep_s: seconds to keep the job; 0 for ever.
            refines: as of Outcome.
        """
        answer, replica = of_all_rounds(request, found.answer), self._replicas.get(request)
        replica.keep(found.estimators)
        if isinstance(answer, ModelAnswer):
            # Before the job is shown as done. If it is settled twice, the first model stays.
            answer = replace(answer, id=taken.job)
            self._models.keep(taken.population, request, answer)
        text, n_show = answer_json(answer), replica.n_events
        snapshot, kept = request.snapshot, found.estimators
        outcome = Outcome("done", text, snapshot, n_show, keep_s, kept, refines)
        return Ended(taken, outcome)


def _free_then(replica: Replica, one: FromHistory) -> Free | None:
    """The free answer of a job in the state of its plan, after the draws."""
    asked = one.request.asked
    if isinstance(asked, ModelAsked):
        raise MeasurementError
    present, replica.stamp = replica.stamp, one.stamp
    try:
        return free_answer(replica, asked)
    finally:
        replica.stamp = present


def failed(taken: Taken, error: QServerError) -> Ended:
    """The end of a job with an error."""
    text = problem_from_error(error).to_json()
    return Ended(taken, Outcome("failed", text, "", 0, WORKER.job_keep_s))
