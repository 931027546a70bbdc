"""Decide on a question: answer it from history, refuse it, or plan a spend.

The online side and the worker run the same code, each on a replica of the public state.
"""

from __future__ import annotations

from dataclasses import dataclass

from qserver.answering.answer import answer_from, exact_answer, offer, refusal
from qserver.answering.models.purchase import learnt, plan_model
from qserver.answering.remarks import told, told_of_all
from qserver.answering.replica import Replica
from qserver.answering.workload import WorkloadCost, answer_workload, offers, open_work
from qserver.errors import MeasurementError
from qserver.inference.estimate import RowEstimate
from qserver.inference.posterior.disagreeing_rows import ToState
from qserver.planning.holdings import estimate_of, meeting
from qserver.planning.planner import Plan
from qserver.planning.workloads.workload import WorkloadPlan
from qserver.query.question import AnyAsked, ModelAsked, Question, Workload
from qserver.records.answer import Answer, AnyAnswer, Offer
from qserver.records.history import Estimator


@dataclass(frozen=True)
class Free:
    """A free answer, and weights to keep so that it stays free."""

    answer: AnyAnswer
    estimators: tuple[Estimator, ...] = ()


@dataclass(frozen=True)
class ToAnswer:
    """The estimate of history for a question, ready for an answer without the replica.

    A posterior may take a second to compute. So a replica's lock is held while this is made, and
    not while the answer is.
    """

    question: Question
    estimate: RowEstimate
    law: ToState
    remaining_nano: int
    version: int

    def answer(self) -> Answer:
        """The answer without its remarks; raises as `answer_from`."""
        return answer_from(
            self.question,
            self.estimate,
            self.law.stated(),
            source="history",
            charged_nano=0,
            remaining_nano=self.remaining_nano,
            version=self.version,
        )

    @property
    def estimators(self) -> tuple[Estimator, ...]:
        """Weights to keep so that the answer stays free."""
        estimate, key = self.estimate, self.question.row.key
        return (estimate.estimator(key),) if estimate.needs_storing else ()

    def free(self, replica: Replica, answer: Answer) -> Free:
        """The answer with its remarks, on the replica's present state."""
        return Free(told(replica, self.question, answer), self.estimators)


def decide(replica: Replica, asked: AnyAsked) -> Free | Plan:
    """The answer of history, or a plan that can be paid.

    Raises:
        BudgetExhaustedError: the price exceeds the remaining budget. Its `free`, and that of the
            next error, is the interval available without a charge; for a workload one per question.
        DisclosureGuardError: a cell would be known better than the owner allows.
        ClaimGuardError: likewise a claim of the owner's.
        PeriodRetiredError: it needs records that are erased.
        CapacityError: a requirement is finer than the lattice.
        NetworkError: a model's specification is wrong, or history does not suffice for it.
    """
    if isinstance(asked, ModelAsked):
        return _decide_model(replica, asked)
    if isinstance(asked, Workload):
        return _decide_workload(replica, asked)
    return _decide_question(replica, asked)


def free_answer(replica: Replica, asked: Question | Workload) -> Free | None:
    """The answer of history, else None; without a plan to spend."""
    found = to_answer(replica, asked)
    return found.free(replica, found.answer()) if isinstance(found, ToAnswer) else found


def to_answer(replica: Replica, asked: Question | Workload) -> Free | ToAnswer | None:
    """As `free_answer`; for a question the estimate behind its answer."""
    if isinstance(asked, Question):
        return _to_answer(replica, asked)
    plan = replica.free_workload(asked)
    return None if plan is None else _free_workload(replica, asked, plan)


@dataclass(frozen=True)
class StillToDo:
    """The work that remains for a workload that history answers.

    Args:
        n_laws: laws of numbers that are to be computed, which takes nearly all of the time; one
            that is found with others counts for less.
        estimators: weights that must be kept so that it stays free.
    """

    n_laws: float
    estimators: tuple[Estimator, ...] = ()


def still_to_do(replica: Replica, workload: Workload) -> StillToDo:
    """The work that remains for a workload; none where history does not answer it."""
    plan, engine = replica.free_workload(workload), replica.engine
    if plan is None:
        return StillToDo(0)
    kept = (e for e in plan.estimators if e is not None and not engine.has_kept(e))
    return StillToDo(open_work(engine, workload), tuple(kept))


def offered(
    replica: Replica, asked: Question | Workload
) -> Offer | tuple[Offer | None, ...] | None:
    """The free interval of history; for a workload one per question."""
    if isinstance(asked, Workload):
        return offers(replica.engine, asked)
    if asked.looking.independent:
        return None
    estimate = None if asked.row.is_zero else estimate_of(replica.engine, asked)
    return offer(asked, estimate, replica.engine)


def _decide_model(replica: Replica, asked: ModelAsked) -> Free | Plan:
    plan = plan_model(replica, asked)
    if plan is None:
        remaining = replica.present.remaining_nano
        return Free(learnt(replica, asked, charged_nano=0, remaining_nano=remaining))
    refused = refusal(plan, replica=replica)
    if refused is None:
        return plan
    raise refused


def _decide_question(replica: Replica, question: Question) -> Free | Plan:
    plan = replica.plan(question)
    if plan.kind in ("free", "exact"):
        found = free_answer(replica, question)
        if found is None:
            raise MeasurementError
        return found
    refused = refusal(plan, replica=replica)
    if refused is None:
        return plan
    refused.free = offered(replica, question)
    raise refused


def _to_answer(replica: Replica, question: Question) -> Free | ToAnswer | None:
    remaining, version = replica.present.remaining_nano, replica.n_events
    if question.row.is_zero:
        exact = exact_answer(question, remaining_nano=remaining, version=version)
        return Free(exact)
    if question.looking.independent:
        return None
    estimate = meeting(replica.engine, question)
    if estimate is None:
        return None
    law = replica.engine.to_state(question.row, estimate, error=question.reading.error)
    return ToAnswer(question, estimate, law, remaining, version)


def _decide_workload(replica: Replica, workload: Workload) -> Free | Plan:
    plan = replica.plan_workload(workload)
    if plan.kind in ("free", "exact"):
        return _free_workload(replica, workload, plan)
    refused = refusal(plan, replica=replica)
    if refused is None:
        return plan
    refused.free = offered(replica, workload)
    raise refused


def _free_workload(replica: Replica, workload: Workload, plan: WorkloadPlan) -> Free:
    found = answer_workload(
        replica.engine,
        workload,
        estimators=plan.estimators,
        together=plan.simultaneous,
        cost=WorkloadCost(0, replica.present.remaining_nano, {}),
        version=replica.n_events,
    )
    return Free(told_of_all(replica, workload, found.answer), found.estimators)
