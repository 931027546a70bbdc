"""Build answers, offers and refusals from estimates and plans."""

from __future__ import annotations

import math
from dataclasses import replace

from qserver.answering.replica import Replica
from qserver.errors import BudgetExhaustedError, DisclosureGuardError, InputError
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.estimate import CredibleInterval
from qserver.inference.posterior.after_looking import reading, rule_that_holds
from qserver.inference.posterior.disagreeing_rows import Stated
from qserver.inference.posterior.method_and_prior import (
    AsRead,
    ContradictedPriorError,
    CutPosterior,
    read,
)
from qserver.ledger.claims import Lifted
from qserver.planning.planner import Plan
from qserver.query.asking.after_looking import Selection
from qserver.query.asking.method_and_prior import Reading
from qserver.query.calendar import PeriodRetiredError
from qserver.query.linear_query import total_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question, Workload
from qserver.query.requirement import MIN_DELTA
from qserver.query.sealed_periods import periods_of
from qserver.records.answer import Answer, Offer, Source
from qserver.records.claim import ClaimGuardError
from qserver.records.plan import Planned, PlannedRow
from qserver.records.statement import EXACT, OF_ESTIMATOR, Statement


def period_retired(plan: Plan, replica: Replica) -> PeriodRetiredError | None:
    """The refusal of a plan that measures retired periods; None if it measures none.

    The caller adds the free interval.
    """
    n_retired = replica.present.n_retired
    if not n_retired:
        return None
    meta = replica.meta
    bought: tuple[Planned, ...] = (*plan.rows, *plan.tables)
    if not any(_measures(one, meta.period_axis, n_retired) for one in bought):
        return None
    attribute = meta.domain.attributes[meta.period_axis]
    return PeriodRetiredError(attribute=attribute.name, first_kept=attribute.value_names[n_retired])


def _measures(planned: Planned, axis: int, n_retired: int) -> bool:
    """Whether a row weighs one of the first periods, or a table has cells there."""
    row = planned.row if isinstance(planned, PlannedRow) else planned.partition.inside
    return any(run.start < n_retired for run in periods_of(row, axis))


PUBLIC_CONFIDENCE = 1.0 - MIN_DELTA
"""With which a public total is asked for: whatever has noise has a long interval then."""
NOISELESS = 1e-9
"""A number whose interval is shorter, as a part of it, has no noise."""
_DOWN = 1.0 - 1e-15


def exact_answer(question: Question, *, remaining_nano: int, version: int) -> Answer:
    """The answer of a query that vanishes on every cell: exactly zero, at no cost."""
    return Answer(
        estimate=0.0,
        low=0.0,
        high=0.0,
        confidence=question.confidence,
        confidence_attained=1.0,
        source="exact",
        charged_nano=0,
        remaining_nano=remaining_nano,
        evidence=(),
        weights="exact",
        version=version,
        statement=EXACT,
        as_of=question.as_of,
    )


def answer_from(
    question: Question,
    estimate: RowEstimate,
    stated: Stated,
    *,
    source: Source,
    charged_nano: int,
    remaining_nano: int,
    version: int,
) -> Answer:
    """The query's answer from its row's estimate; the interval's ends are rounded outward.

    Args:
        stated: the posterior of the row.

    Raises:
        ContradictedPriorError: the question's prior leaves next to nothing, and nothing was spent.
            An answer that was paid for stands without the prior.
    """
    try:
        found = as_read(question, estimate, stated)
    except ContradictedPriorError:
        if source == "history":
            raise
        question = replace(question, reading=replace(question.reading, prior=None))
        found = as_read(question, estimate, stated)
    interval = _stated(found, question)
    if found.statement.method != "auto" or found.statement.prior is not None:
        attained = found.posterior.confidence_of(question.requirement.half_width * _DOWN)
    else:
        # In the row's units, in which plans are made: the law is the same.
        attained = stated.posterior.confidence_of(question.row_half_width)
    posterior = found.posterior
    return Answer(
        estimate=posterior.estimate,
        low=interval.low,
        high=interval.high,
        confidence=question.confidence,
        confidence_attained=attained,
        source=source,
        charged_nano=charged_nano,
        remaining_nano=remaining_nano,
        evidence=estimate.evidence,
        weights=estimate.method,
        version=version,
        selected_from=question.looking.selected_from,
        statement=found.statement,
        as_of=question.as_of,
    )


def as_read(question: Question, estimate: RowEstimate, stated: Stated) -> AsRead:
    """The posterior of the query, read as the question asks, in the query's units.

    Args:
        stated: the posterior of the row.

    Raises:
        ContradictedPriorError: the question's prior leaves next to nothing.
    """
    multiplier = question.row.multiplier
    return read(stated.scaled(multiplier), estimate.posterior.scaled(multiplier), question.reading)


def _as_chosen(question: Question, found: Statement) -> Selection | None:
    """The choice behind the question, and whose interval holds by what is known."""
    selection = question.looking.selected_from
    if selection is None:
        return None
    rule = rule_that_holds(
        selection.rule, n_unknown=selection.m - 1, disagreements=found.disagreements
    )
    return selection if rule == selection.rule else Selection(selection.m, rule)


def _stated(found: AsRead, question: Question) -> CredibleInterval:
    """The interval that holds after everything that the asker looked at."""
    known, selection = found.posterior, _as_chosen(question, found.statement)
    if selection is None or isinstance(known, CutPosterior):
        return known.interval(question.confidence)
    return reading(known, selection, confidence=question.confidence)


def offer_from(query: Primitive, estimate: RowEstimate, *, confidence: float) -> Offer | None:
    """The shortest free interval, if finite.

    It is that of the estimate's error, which is what free and price go by: a question of this
    length is free, and its answer is the posterior.
    """
    return _offer(estimate.posterior.scaled(query.multiplier).interval(confidence), confidence)


def _offer(interval: CredibleInterval, confidence: float) -> Offer | None:
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        return None
    return Offer(interval.low, interval.high, confidence)


Refusal = BudgetExhaustedError | DisclosureGuardError | ClaimGuardError | PeriodRetiredError


def refusal(plan: Plan, *, replica: Replica) -> Refusal | None:
    """The reason to refuse a plan on the replica's state; None if it may be carried out.

    The caller adds the free interval. A plan that raises no loss above the present maximum is
    refused only for a claim, or if it measures periods whose records are erased.
    """
    if (retired := period_retired(plan, replica)) is not None:
        return retired
    standing, after = replica.present.standing, replica.after(plan)
    price, left = after.lost_nano - standing.lost_nano, standing.remaining_nano
    guard, cap, shown = replica.meta.guard_nano, replica.meta.disclosure_cap, replica.meta.shown
    if price > left:
        due, left = replica.price_nano(plan), replica.present.remaining_nano
        return BudgetExhaustedError(price_nano=due, remaining_nano=left)
    if price and guard is not None and standing.lost_nano + price > guard:
        return DisclosureGuardError(
            price_nano=shown.rise_nano(standing.lost_nano, after.lost_nano),
            loss_nano=shown.nano(standing.lost_nano),
            allowed_nano=shown.nano(guard),
            cap=cap or 0.0,
        )
    # A free plan may still tell more of a claim: it charges cells that lost little.
    return _claim_refusal(replica.lifted(plan))


def _claim_refusal(found: Lifted | None) -> ClaimGuardError | None:
    if found is None:
        return None
    claim = found.claim
    return ClaimGuardError(
        claim=claim.name,
        width=float(claim.exact_width),
        before=found.before,
        after=found.after,
        cap=claim.p,
    )


def offer(
    question: Question, estimate: RowEstimate | None, engine: InferenceEngine | None = None
) -> Offer | None:
    """The free interval of history for a question, if finite.

    Args:
        engine: knows the posterior; None for the law of the estimate's error.
    """
    if question.row.is_zero:
        return Offer(0.0, 0.0, question.confidence, law="exact")
    if estimate is None:
        return None
    stated = Stated(estimate.posterior, OF_ESTIMATOR)
    if engine is not None:
        stated = engine.stated(question.row, estimate, error=question.reading.error)
    multiplier = question.row.multiplier
    told = stated.scaled(multiplier)
    interval = _stated(AsRead(told.posterior, told.statement), question)
    free = estimate.posterior.scaled(multiplier).interval(question.confidence)
    found = _offer(interval, question.confidence)
    return found and replace(found, length=free.high - free.low, law=told.statement.law)


def with_ends(replica: Replica, asked: Question | Workload) -> Question | Workload:
    """The request with the ends of its prior, if it is one question with a prior.

    Raises:
        InputError: the prior says nothing true of the query or of the dataset.
    """
    if isinstance(asked, Question):
        check_method(replica, asked.reading)
    if not isinstance(asked, Question) or asked.reading.prior is None:
        return asked
    return replace(asked, reading=reading_on(replica, asked.row, asked.reading))


def reading_on(replica: Replica, row: Primitive, reading: Reading) -> Reading:
    """The reading with the ends of its prior; raises as `with_ends`."""
    check_method(replica, reading)
    prior = reading.prior
    needs_total = prior is not None and prior.kind == "known-total"
    return reading.on(row, total=known_total(replica) if needs_total else None)


def check_method(replica: Replica, reading: Reading) -> None:
    """Raise InputError for a method that sums Laplace variables if the noise is Gaussian."""
    if reading.method != "auto" and replica.meta.law.is_additive:
        why = "the noise of this dataset is Gaussian, and the law of an error is normal exactly"
        raise InputError("method", f"be auto: {why}", reading.method)


def known_total(replica: Replica) -> int | None:
    """The number of records where public."""
    total = primitive(total_query(replica.meta.domain.sizes))
    found = replica.engine.estimate(total, confidence=PUBLIC_CONFIDENCE)
    if found is None:
        return None
    return public_total(offer_from(total, found, confidence=PUBLIC_CONFIDENCE))


def public_total(known: Offer | None) -> int | None:
    """The number of records if its known interval has no noise, else None.

    Args:
        known: the best interval for the total at `PUBLIC_CONFIDENCE`.
    """
    if known is None or not known.high - known.low <= NOISELESS * max(1.0, abs(known.low)):
        return None
    return round(0.5 * (known.low + known.high))


def most_records(replica: Replica) -> float:
    """The most records possible, by releases of their number or by the public cap."""
    total = primitive(total_query(replica.meta.domain.sizes))
    found = replica.engine.estimate(total, confidence=PUBLIC_CONFIDENCE)
    cap = float(replica.meta.most_records)
    offer = None if found is None else offer_from(total, found, confidence=PUBLIC_CONFIDENCE)
    return cap if offer is None else max(1.0, min(cap, offer.high))
