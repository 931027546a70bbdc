"""Build answers, offers and refusals from estimates and plans."""

from __future__ import annotations

import math

from qserver.answering.replica import Replica
from qserver.errors import BudgetExhaustedError, DisclosureGuardError
from qserver.inference.engine import RowEstimate
from qserver.planning.planner import Plan
from qserver.query.primitive import Primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import Answer, Offer, Source


def exact_answer(requirement: Requirement, *, remaining_nano: int, version: int) -> Answer:
    """The answer of a query that vanishes on every cell: exactly zero, at no cost."""
    return Answer(
        estimate=0.0,
        low=0.0,
        high=0.0,
        confidence=requirement.confidence,
        confidence_attained=1.0,
        source="exact",
        charged_nano=0,
        remaining_nano=remaining_nano,
        evidence=(),
        method="exact",
        version=version,
    )


def answer_from(
    question: Question,
    estimate: RowEstimate,
    *,
    source: Source,
    charged_nano: int,
    remaining_nano: int,
    version: int,
) -> Answer:
    """The query's answer from its row's estimate; the interval's ends are rounded outward."""
    posterior = estimate.posterior.scaled(question.row.multiplier)
    interval = posterior.interval(question.confidence)
    attained = estimate.posterior.confidence_of(question.row_half_width)
    return Answer(
        estimate=posterior.estimate,
        low=interval.low,
        high=interval.high,
        confidence=question.confidence,
        confidence_attained=attained,
        source=source,
        charged_nano=charged_nano,
        remaining_nano=remaining_nano,
        evidence=tuple(sorted({*estimate.ids, *estimate.tables})),
        method=estimate.method,
        version=version,
    )


def offer_from(query: Primitive, estimate: RowEstimate, *, confidence: float) -> Offer | None:
    """The best interval that history gives without a charge, if it is finite."""
    interval = estimate.posterior.scaled(query.multiplier).interval(confidence)
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return None
    return Offer(interval.low, interval.high, confidence)


Refusal = BudgetExhaustedError | DisclosureGuardError


def refusal(plan: Plan, *, replica: Replica) -> Refusal | None:
    """Why a plan on the replica's state must be refused; None if it may be carried out.

    The caller adds the free interval. A plan that raises no loss above the present maximum is never
    refused.
    """
    price, standing = replica.price_nano(plan), replica.present.standing
    guard, cap = replica.meta.guard_nano, replica.meta.disclosure_cap
    if price > standing.remaining_nano:
        return BudgetExhaustedError(price_nano=price, remaining_nano=standing.remaining_nano)
    if price and guard is not None and standing.lost_nano + price > guard:
        return DisclosureGuardError(
            price_nano=price,
            loss_nano=standing.lost_nano,
            allowed_nano=guard,
            cap=cap or 0.0,
        )
    return None


def offer(question: Question, estimate: RowEstimate | None) -> Offer | None:
    """The best interval that history gives without a charge, if it gives one."""
    if question.row.is_zero:
        return Offer(0.0, 0.0, question.confidence)
    if estimate is None:
        return None
    return offer_from(question.row, estimate, confidence=question.confidence)
