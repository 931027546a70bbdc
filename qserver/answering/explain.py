"""The price of an answer and the way to it; spends nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Generic, TypeVar

from qserver.answering.answer import offer, period_retired, refusal
from qserver.answering.models.kinds.kind import ModelWork, WeighedKind
from qserver.answering.models.kinds.registry import kind_of
from qserver.answering.models.price import ModelExplanation
from qserver.answering.models.purchase import foretold_error, foretold_wanted, learnt, plan_model
from qserver.answering.remarks import choices_of_question, room_nano
from qserver.answering.replica import Replica
from qserver.answering.workload import each_alone, offers
from qserver.errors import CapacityError
from qserver.planning.effort import Effort
from qserver.planning.planner import Plan
from qserver.planning.workloads.one_by_one import work_apart
from qserver.planning.workloads.workload import WorkloadPlan
from qserver.query.question import ModelAsked, Question, Workload
from qserver.query.requirement import MAX_LENGTH, MIN_LENGTH, Requirement
from qserver.records.answer import (
    BothChoices,
    CurvePoint,
    Explanation,
    FactorPoint,
    WorkloadExplanation,
)
from qserver.records.charge import AnyCharge
from qserver.records.plan import PlannedRow, PlannedTable, Second
from qserver.records.privacy.conversion import Shown

E = TypeVar("E")
P = TypeVar("P", CurvePoint, FactorPoint)

# Lengths of the price curve, as parts of the asked length.
_CURVE = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
_WORKLOAD_CURVE = (0.5, 1.0, 2.0)
APART_WORK = 120_000.0
"""Most work for the prices of a workload's questions one by one; beyond it they are left out."""
CURVE_WORK = 75_000.0
"""Most work to plan and price a workload that other lengths are priced for, too."""
_STEP_WORK = 75.0
"""A step of the ledger's bound: a price of several charges takes one on each of its tables."""
_PRICES = 4
"""A plan prices about so many purchases, and its single plans each time their number doubles."""


def falling(points: Sequence[P]) -> tuple[P, ...]:
    """The points that cost no more than any shorter one, so that prices never rise along them.

    A longer interval may cost more than a shorter one in a workload, and near the limit, where
    tables fit for the one alone. Nobody should pay that.

    Args:
        points: in order of length, the shortest first; a price of None is above all others.
    """
    found, least = list[P](), inf
    for point in points:
        price = inf if point.price_nano is None else point.price_nano
        if price <= least:
            found.append(point)
            least = price
    return tuple(found)


@dataclass(frozen=True)
class Explained(Generic[E]):
    """An explanation, and the charges of the plan, before any account's allowance is known."""

    explanation: E
    charges: list[AnyCharge]


def explain_question(replica: Replica, question: Question) -> Explained[Explanation]:
    """Plan, price, free interval and price curve of one question, and the prices of its choices.

    Raises:
        PeriodRetiredError: it needs records that are erased.
    """
    question = replica.chosen(question)
    row, plan = question.row, replica.plan(question)
    if (retired := period_retired(plan, replica)) is not None:
        retired.free = offer(question, plan.estimate, replica.engine)
        raise retired
    price = replica.price_nano(plan)
    explanation = Explanation(
        kind=plan.kind,
        price_nano=price,
        most_nano=price + _room_nano(replica, question, price),
        remaining_nano=replica.present.remaining_nano,
        affordable=refusal(plan, replica=replica) is None,
        rows=_shown(plan.rows, replica.meta.shown),
        tables=_shown(plan.tables, replica.meta.shown),
        free=offer(question, plan.estimate, replica.engine),
        curve=falling([_curve_point(replica, question, factor) for factor in _CURVE]),
        measure=choices_of_question(replica, question, plan),
        sensitivity=float(row.sensitivity),
        sensitivity_exact=row.exact,
        version=replica.present.n_shown,
        protected=_protected(replica),
    )
    return Explained(explanation, _charges(plan))


def explain_workload(
    replica: Replica, workload: Workload, *, told: Collection[int] | None = None
) -> Explained[WorkloadExplanation]:
    """Plan, price, price of single questions, free intervals and price curve of a workload.

    Args:
        told: the questions whose free intervals are posteriors; None for all.

    Raises:
        PeriodRetiredError: it needs records that are erased.
    """
    effort, alone, workload = Effort(), Effort(APART_WORK), replica.chosen(workload)
    plan = replica.plan_workload(workload, effort=effort)
    if (retired := period_retired(plan, replica)) is not None:
        retired.free = offers(replica.engine, workload, told)
        raise retired
    price, apart = replica.price_nano(plan), None
    # This price needs every plan: past so much work none of them is made.
    if work_apart(len(plan.paid) - 1) <= APART_WORK:
        apart = _price_apart(replica, workload, alone)
    # Other lengths take about as much.
    work = effort.done + alone.done + _pricing_work(replica, workload)
    factors = _WORKLOAD_CURVE if work <= CURVE_WORK else (1.0,)
    curve = [
        FactorPoint(f, price if f == 1.0 else _workload_price(replica, workload, f))
        for f in factors
    ]
    explanation = WorkloadExplanation(
        kind=plan.kind,
        price_nano=price,
        most_nano=price + _room_nano(replica, workload, price),
        price_apart_nano=apart,
        remaining_nano=replica.present.remaining_nano,
        affordable=refusal(plan, replica=replica) is None,
        rows=_shown(plan.rows, replica.meta.shown),
        tables=_shown(plan.tables, replica.meta.shown),
        free=offers(replica.engine, workload, told),
        curve=falling(curve),
        measure=BothChoices(workload.measure or "auto", price, price, ""),
        simultaneous=plan.simultaneous,
        version=replica.present.n_shown,
        protected=_protected(replica),
    )
    return Explained(explanation, _charges(plan))


def _protected(replica: Replica) -> str | None:
    """The people whose loss a price is, in words; None for a domain without periods."""
    unit = replica.meta.unit_status
    return None if unit is None else unit.text


@dataclass(frozen=True)
class Priced:
    """The present price of a workload.

    Args:
        nano: its price, in nano-epsilon.
        charges: None where the budget or a guard forbids them.
    """

    nano: int
    charges: list[AnyCharge] | None


def priced(replica: Replica, workload: Workload) -> Priced:
    """The price of a workload alone: without prices of other lengths."""
    return _priced(replica, replica.plan_workload(replica.chosen(workload)))


def priced_by_rows(replica: Replica, workload: Workload) -> Priced | None:
    """At least the price, found sooner; None where a claim may forbid other charges.

    Where own rows can be paid, whatever is cheaper can be paid.
    """
    if replica.claims:
        return None
    try:
        return _priced(replica, replica.plan_by_rows(workload))
    except CapacityError:
        return None  # Tables may help where the lattice of rows is too coarse.


def _priced(replica: Replica, plan: WorkloadPlan) -> Priced:
    refused = refusal(plan, replica=replica) is not None
    return Priced(replica.price_nano(plan), None if refused else _charges(plan))


def explain_model(replica: Replica, asked: ModelAsked) -> Explained[ModelExplanation]:
    """Tables and price of a model to learn.

    Raises:
        InputError: the specification is wrong, or history does not suffice and nothing is paid.
    """
    plan, present = plan_model(replica, asked), replica.present
    if plan is None:
        learnt(replica, asked, charged_nano=0, remaining_nano=present.remaining_nano)
        free = ModelExplanation(
            kind="free",
            price_nano=0,
            sample_nano=None,
            remaining_nano=present.remaining_nano,
            affordable=True,
            tables=(),
            version=present.n_shown,
            work=_model_work(replica, asked, ()),
            error=foretold_error(replica, asked, None),
        )
        return Explained(free, [])
    explanation = ModelExplanation(
        kind=plan.kind,
        price_nano=replica.price_nano(plan),
        sample_nano=None if plan.sampled is None else plan.sampled.sample_nano,
        remaining_nano=present.remaining_nano,
        affordable=refusal(plan, replica=replica) is None,
        tables=_shown(plan.tables, replica.meta.shown),
        version=present.n_shown,
        work=_model_work(replica, asked, plan.tables),
        error=foretold_error(replica, asked, plan),
        wanted=foretold_wanted(replica, asked, plan),
        second_nano=None if plan.second is None else _second_nano(replica, plan, plan.second),
    )
    return Explained(explanation, _charges(plan))


def _second_nano(replica: Replica, plan: Plan, second: Second) -> int:
    """The part of a price for the second purchase, charged last."""
    after = replica.after(plan).lost_nano
    return replica.meta.shown.rise_nano(after - second.tables_nano, after)


def _model_work(
    replica: Replica, asked: ModelAsked, tables: Sequence[PlannedTable]
) -> ModelWork | None:
    kind = kind_of(asked.kind)
    if not isinstance(kind, WeighedKind):
        return None
    bought = [tuple(p.axis for p in t.partition.axes) for t in tables]
    domain, history = replica.meta.domain, replica.measurements
    return kind.work(asked.specification, domain, history, bought=bought)


def _charges(plan: Plan) -> list[AnyCharge]:
    return plan.purchase.charges


def _room_nano(replica: Replica, asked: Question | Workload, price_nano: int) -> int:
    """Most that refining the paid answer may cost; 0 under Gaussian noise, which never needs it."""
    if replica.meta.law.is_additive:
        return 0
    return room_nano(asked, price_nano, n_history=replica.n_events)


def _price_apart(replica: Replica, workload: Workload, effort: Effort) -> int | None:
    """The price of the questions one by one, each on the present state; None if that takes too
    long.

    In a simultaneous workload each has the confidence that the union bound asks for.
    """
    plans = replica.plans_apart(each_alone(workload), effort)
    return None if plans is None else replica.price_apart_nano(plans)


def _pricing_work(replica: Replica, workload: Workload) -> float:
    n_prices = _PRICES + len(workload.questions).bit_length()
    return _STEP_WORK * replica.ledger.n_shifted * n_prices


def _workload_price(replica: Replica, workload: Workload, factor: float) -> int | None:
    """The price with all lengths times a factor; None if the lattice is too coarse."""
    scaled = replace(workload, questions=tuple(_scaled(q, factor) for q in workload.questions))
    try:
        plan = replica.plan_workload(scaled)
    except CapacityError:
        return None
    return None if period_retired(plan, replica) else replica.price_nano(plan)


def _scaled(question: Question, factor: float) -> Question:
    length = min(max(question.requirement.length * factor, MIN_LENGTH), MAX_LENGTH)
    return question.with_requirement(Requirement(length, question.confidence))


def _curve_point(replica: Replica, question: Question, factor: float) -> CurvePoint:
    scaled = _scaled(question, factor)
    length = scaled.requirement.length
    try:
        plan = replica.plan(scaled)
    except CapacityError:
        return CurvePoint(length, None)
    retired = period_retired(plan, replica) is not None
    return CurvePoint(length, None if retired else replica.price_nano(plan))


OnePlanned = TypeVar("OnePlanned", PlannedRow, PlannedTable)


def _shown(planned: tuple[OnePlanned, ...], shown: Shown) -> tuple[OnePlanned, ...]:
    """Rows or tables with their alpha as losses are shown; under zCDP none continues another."""
    if shown.delta is None:
        return planned
    return tuple(replace(one, alpha_nano=shown.nano(one.alpha_nano)) for one in planned)
