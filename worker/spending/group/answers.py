"""How the jobs of a group end, each in the state after those before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qserver.answering.decide import Free, free_answer, offered
from qserver.answering.replica import Replica
from qserver.errors import (
    BudgetExhaustedError,
    DisclosureGuardError,
    MeasurementError,
    QServerError,
)
from qserver.query.question import ModelAsked
from qserver.records.answer import ModelAnswer
from qserver.records.claim import ClaimGuardError
from qserver.records.problem import problem_from_error
from qserver.storage.encoding.jobs import answer_json
from qserver.storage.encoding.requests import Request, events_of
from qserver.storage.queue import Ended, Outcome, Taken
from qserver.storage.spend import SpendingStore
from worker.constants import WORKER
from worker.journal.sections import Drawn
from worker.spending.group.planned import Decided, Failed, FromHistory, Spend
from worker.spending.group.refining import next_request, of_all_rounds
from worker.spending.group.replicas import Replicas
from worker.spending.reservation import answer_spent


class Answers:
    """Answers jobs on the replicas, which follow every release; for one thread."""

    def __init__(self, replicas: Replicas, writer: SpendingStore) -> None:
        self._replicas = replicas
        self._models = writer.models

    def ending(self, one: Decided, drawn: Mapping[str, Drawn]) -> Ended | None:
        """How one job of a group ends; None if it has to be planned again."""
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
        """The error of a failed job, with what history gives now that answers are drawn."""
        error, refused = one.error, one.refused
        if refused is None or isinstance(refused.asked, ModelAsked):
            return error
        if isinstance(error, BudgetExhaustedError | DisclosureGuardError | ClaimGuardError):
            error.free = offered(self._replicas.get(refused), refused.asked)
        return error

    def succeeded(
        self, taken: Taken, request: Request, found: Free, *, keep_s: int, refines: str = ""
    ) -> Ended:
        """A job that ends with this answer.

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
    """The free answer of a job in the state that it was planned on, now that answers are drawn."""
    asked = one.request.asked
    if isinstance(asked, ModelAsked):
        raise MeasurementError
    present, replica.stamp = replica.stamp, one.stamp
    try:
        return free_answer(replica, asked)
    finally:
        replica.stamp = present


def failed(taken: Taken, error: QServerError) -> Ended:
    """A job that ends with an error."""
    text = problem_from_error(error).to_json()
    return Ended(taken, Outcome("failed", text, "", 0, WORKER.job_keep_s))
