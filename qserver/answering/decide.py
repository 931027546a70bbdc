"""Decide on a question: answer it from history, refuse it, or plan a spend.

The online side and the worker run the same code, each on a replica of the public state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from qserver.answering.answer import answer_from, exact_answer, offer, refusal
from qserver.answering.both_choices import rest_nano
from qserver.answering.models.purchase import learnt, plan_model
from qserver.answering.replica import Replica
from qserver.answering.workload import WorkloadCost, answer_workload, offers
from qserver.errors import MeasurementError
from qserver.planning.holdings import estimate_of
from qserver.planning.planner import Plan
from qserver.planning.workloads.workload import WorkloadPlan
from qserver.query.question import AnyAsked, ModelAsked, Question, Workload
from qserver.records.answer import AnyAnswer, Offer
from qserver.records.history import Estimator


@dataclass(frozen=True)
class Free:
    """A free answer, and weights that must be kept so that it stays free."""

    answer: AnyAnswer
    estimators: tuple[Estimator, ...] = ()


def decide(replica: Replica, asked: AnyAsked) -> Free | Plan:
    """The answer that history gives, or the plan to be carried out, which can be paid.

    Raises:
        BudgetExhaustedError: the price exceeds the remaining budget. Its `free`, and that of the
            next error, is the interval available without a charge; for a workload one per question.
        DisclosureGuardError: a cell would be known better than the owner allows.
        ClaimGuardError: likewise a claim of the owner's.
        CapacityError: a requirement is finer than the lattice.
        NetworkError: a model's specification is wrong, or history does not suffice for it.
    """
    if isinstance(asked, ModelAsked):
        return _decide_model(replica, asked)
    if isinstance(asked, Workload):
        return _decide_workload(replica, asked)
    return _decide_question(replica, asked)


def free_answer(replica: Replica, asked: Question | Workload) -> Free | None:
    """The answer that history gives, else None: without a plan to spend."""
    if isinstance(asked, Question):
        return _free_question(replica, asked)
    plan = replica.free_workload(asked)
    return None if plan is None else _free_workload(replica, asked, plan)


def offered(
    replica: Replica, asked: Question | Workload
) -> Offer | tuple[Offer | None, ...] | None:
    """The interval that history gives without a charge; for a workload one per question."""
    if isinstance(asked, Workload):
        return offers(replica.engine, asked)
    if asked.looking.independent:
        return None
    estimate = None if asked.row.is_zero else estimate_of(replica.engine, asked)
    return offer(asked, estimate)


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
        found = _free_question(replica, question)
        if found is None:
            raise MeasurementError
        return found
    refused = refusal(plan, replica=replica)
    if refused is None:
        return plan
    refused.free = offered(replica, question)
    raise refused


def _free_question(replica: Replica, question: Question) -> Free | None:
    remaining, version = replica.present.remaining_nano, replica.n_events
    if question.row.is_zero:
        exact = exact_answer(question.requirement, remaining_nano=remaining, version=version)
        return Free(exact)
    if question.looking.independent:
        return None
    estimate = estimate_of(replica.engine, question)
    if estimate is None or estimate.half_width > question.row_half_width:
        return None
    answer = answer_from(
        question,
        estimate,
        replica.engine.stated(question.row, estimate, error=question.reading.error),
        source="history",
        charged_nano=0,
        remaining_nano=remaining,
        version=version,
    )
    answer = replace(answer, rest_nano=rest_nano(replica, question, answer))
    kept = (estimate.estimator(question.row.key),) if estimate.needs_storing else ()
    return Free(answer, kept)


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
    return Free(found.answer, found.estimators)
