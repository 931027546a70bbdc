"""The plan that meets a requirement: rows with the least rise of the ledger, or blocks.

Every choice depends on rows, scales, requirements and paid questions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from qserver.errors import CapacityError
from qserver.inference.engine import RowEstimate
from qserver.inference.rows.refinement import Weights
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.balanced_row import BalancedWay
from qserver.planning.blocks.earlier_questions import EarlierDemand
from qserver.planning.blocks.needed_part import PurchaseOffer
from qserver.planning.blocks.rent_or_buy import Decision, RentOrBuy
from qserver.planning.by_period import PeriodWays
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.failures import sound
from qserver.planning.holdings import Holdings, estimate_of, extended
from qserver.planning.purchase import Priced, Purchase
from qserver.planning.row_candidates import Candidate, RowCandidates, kind_of_rows
from qserver.query.question import Question
from qserver.query.requirement import MAX_LENGTH, MIN_LENGTH
from qserver.records.answer import PlanKind
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow, PlannedTable, Sampled, Second

TOO_SHORT = "The interval is shorter than the lattice of the noise allows."


@dataclass(frozen=True)
class Plan:
    """How a requirement is met.

    Args:
        kind: `exact` (the query vanishes), `free` (history suffices), `fresh`, `combined` (a new
            row with history), `refined` (measured rows get less noise, perhaps with a new row)
            or `blocks` (tables).
        rows: rows to measure or refine; empty when nothing is spent.
        price_nano: rise of the snapshot's spent budget, in nano-epsilon.
        spent_after_nano: the snapshot's spent budget afterwards.
        estimate: the estimate from history at the asked confidence, or None.
        weights: pairs of a measurement's id and its weight in the query's row that meet the
            requirement once `rows` are released; a new row has the next id. Empty where inference
            finds the weights again, on tables and the query's own row.
        tables_give_rest: whether tables give the rest of the row that the weights leave.
        tables: tables to measure or refine; new ones have the ids after those of new rows.
        paid: questions that the spend adds to the paid ones.
        sampled: the charges if a sample decides the tables' alphas. Each table then has its
            greatest possible alpha.
        second: charge for further tables, which the released answers of `tables` decide.
    """

    kind: PlanKind
    rows: tuple[PlannedRow, ...]
    price_nano: int
    spent_after_nano: int
    estimate: RowEstimate | None
    weights: Weights = ()
    tables: tuple[PlannedTable, ...] = ()
    paid: tuple[PaidQuestion, ...] = ()
    tables_give_rest: bool = False
    sampled: Sampled | None = None
    second: Second | None = None

    @property
    def purchase(self) -> Purchase:
        """The purchase of the plan."""
        return Purchase(self.rows, self.tables, self.sampled, self.second)


@dataclass(frozen=True)
class _Direct:
    """A way by rows alone with its price."""

    candidate: Candidate
    priced: Priced

    @property
    def preference(self) -> tuple[int, int, int]:
        """Less is better."""
        return _preference(self.candidate, self.priced.price_nano)


def plan_answer(
    question: Question,
    holdings: Holdings,
    *,
    rule: RentOrBuy | None = None,
    earlier: EarlierDemand | None = None,
    allowed_nano: int | None = None,
    effort: Effort | None = None,
) -> Plan:
    """The plan for an answer that meets the question.

    Pure apart from caches. A plan never costs more than the cheapest one by rows alone, unless the
    rule buys blocks. The rule also finds a cheaper row of the rest that tables leave.

    Args:
        holdings: the state of the snapshot.
        rule: when to buy blocks, unless the question measures nothing else; None never does.
        earlier: questions on earlier data; their base is tried before the rule.
        allowed_nano: most that the snapshot may have spent in all; the population's limit by
            default.
        effort: counts the work. Once it is spent, the best plan found so far is taken; by default
            after a fixed amount of work.

    Raises:
        CapacityError: the requirement is finer than the lattice.
    """
    spent = holdings.ledger.spent_nano
    if question.row.is_zero:
        return Plan("exact", (), 0, spent, None)
    if question.looking.independent:
        return _independent(question, holdings)
    estimate = estimate_of(holdings.engine, question)
    if estimate is not None and estimate.half_width <= question.row_half_width:
        return Plan("free", (), 0, spent, estimate, estimate.weights)
    effort = effort or Effort(PLANNER.question_work)
    plan_on = partial(
        _unmet,
        rule=rule,
        earlier=earlier if holdings.period_axis is None else None,
        allowed_nano=holdings.limit_nano if allowed_nano is None else allowed_nano,
        effort=effort,
    )
    plan = plan_on(RowCandidates(question, holdings, estimate))
    if question.measure == "only_this":
        return plan
    grown = partial(_extended, question, holdings, estimate, plan_on)
    other = sound("extended tables", grown, holdings.on_fault)
    return plan if other is None or other.price_nano > plan.price_nano else other


def _extended(
    question: Question,
    holdings: Holdings,
    estimate: RowEstimate | None,
    plan_on: Callable[[RowCandidates], Plan],
) -> Plan | None:
    """The plan on tables with cells for all sealed periods; None if they have these cells."""
    then = extended(holdings, [question.row])
    if then is None:
        return None
    found = estimate_of(then.engine, question)
    if found is None or found.half_width > question.row_half_width:
        return replace(plan_on(RowCandidates(question, then, found)), estimate=estimate)
    plan = _plan("blocks", then.priced(Purchase()), estimate)
    paid = paid_question(question, kind=plan.kind, price_nano=plan.price_nano)
    return replace(plan, paid=(paid,))


def _independent(question: Question, holdings: Holdings) -> Plan:
    """A new row that answers alone, independent of earlier releases.

    It is not a paid question: no table could answer it.
    """
    candidate = RowCandidates(question, holdings, None).independent()
    if candidate is None:
        raise CapacityError(TOO_SHORT)
    return _plan("fresh", holdings.priced(candidate.purchase), None, candidate.weights)


def paid_question(question: Question, *, kind: PlanKind, price_nano: int) -> PaidQuestion:
    """The paid question that is recorded when the plan is carried out."""
    return PaidQuestion(
        row=question.row.row,
        half_width=question.roomy_half_width,
        confidence=question.confidence,
        kind=kind,
        price_nano=price_nano,
        measure=question.measure or "auto",
    )


def _unmet(
    ways: RowCandidates,
    *,
    rule: RentOrBuy | None,
    earlier: EarlierDemand | None,
    allowed_nano: int,
    effort: Effort,
) -> Plan:
    """The plan if history does not suffice, with its paid question."""
    question, estimate, on_fault = ways.question, ways.estimate, ways.holdings.on_fault
    way = _direct(ways, rule, allowed_nano=allowed_nano, effort=effort)
    plan = _plan(way.candidate.kind, way.priced, estimate, way.candidate.weights)
    choice = Decision()
    direct = PurchaseOffer(way.priced, way.candidate.weights)
    by_rows = partial(_by_rows, ways, rule, direct, allowed_nano=allowed_nano, effort=effort)
    if earlier is not None:
        before = partial(
            earlier.offer,
            ways.holdings,
            question,
            direct=direct,
            by_rows=by_rows,
            allowed_nano=allowed_nano,
        )
        choice = Decision(sound("earlier questions", before, on_fault))
    if rule is not None and choice.offer is None:
        now = partial(
            rule.propose,
            ways.holdings,
            question,
            direct=direct,
            by_rows=by_rows,
            allowed_nano=allowed_nano,
            effort=effort,
        )
        choice = sound("rent or buy", now, on_fault) or choice
    if choice.offer is not None:
        plan = _offered(choice.offer, estimate)
    paid = paid_question(question, kind=plan.kind, price_nano=plan.price_nano)
    return replace(plan, paid=(replace(paid, bases=choice.bases),))


def _by_rows(
    ways: RowCandidates,
    rule: RentOrBuy | None,
    direct: PurchaseOffer,
    half_width: float,
    *,
    allowed_nano: int,
    effort: Effort,
) -> PurchaseOffer | None:
    """The cheapest way by rows alone at a half-width; None if none is needed.

    Args:
        direct: the way at the asked half-width. Its work is counted again, so that no length leaves
            more work to others.
    """
    holdings, asked = ways.holdings, ways.question
    if half_width == asked.roomy_half_width:
        _count_rows(ways.estimate, effort)
        return direct
    length = asked.requirement.length * half_width / asked.roomy_half_width
    if not MIN_LENGTH <= length <= MAX_LENGTH:
        return None
    question = asked.with_requirement(replace(asked.requirement, length=length))
    estimate = estimate_of(holdings.engine, question)
    if estimate is not None and estimate.half_width <= question.row_half_width:
        return None
    try:
        ways = RowCandidates(question, holdings, estimate)
        way = _direct(ways, rule, allowed_nano=allowed_nano, effort=effort)
    except CapacityError:
        return None
    return PurchaseOffer(way.priced, way.candidate.weights)


def _direct(
    ways: RowCandidates, rule: RentOrBuy | None, *, allowed_nano: int, effort: Effort
) -> _Direct:
    """The cheapest way by rows alone.

    If the own row costs nothing, history can only save charges that cost nothing now. A way by many
    rows is then not searched: that takes long. A fresh row, which needs neither history nor tables,
    remains if all else has a fault.

    The search always ends, but its work is counted.
    """
    holdings, estimate = ways.holdings, ways.estimate
    _count_rows(estimate, effort)
    best = sound("own row", lambda: _best(holdings, None, ways.own_rows()), holdings.on_fault)
    is_free = best is not None and best.priced.price_nano == 0
    most = PLANNER.most_priced_rows if is_free else None
    best = _best_by_history(ways, best, at_most=most)
    if best is None:
        fresh = ways.independent()
        if fresh is None:
            raise CapacityError(TOO_SHORT)
        best = _Direct(fresh, holdings.priced(fresh.purchase))
    best = sound("periods", partial(_by_periods, ways, rule, best), holdings.on_fault) or best
    balanced = partial(_balanced, ways, rule, best, allowed_nano=allowed_nano)
    return sound("balanced row", balanced, holdings.on_fault) or best


def _count_rows(estimate: RowEstimate | None, effort: Effort) -> None:
    n_rows = 0 if estimate is None else len(estimate.weights)
    effort.add(2.0 * PLANNER.evaluation_work + PLANNER.row_of_history_work * n_rows)


def _best_by_history(
    ways: RowCandidates, best: _Direct | None, *, at_most: int | None
) -> _Direct | None:
    holdings = ways.holdings
    found = sound(
        "rows of history",
        lambda: _best(holdings, best, ways.by_history(at_most=at_most)),
        holdings.on_fault,
    )
    return found or best


def _by_periods(ways: RowCandidates, rule: RentOrBuy | None, best: _Direct) -> _Direct:
    """The cheapest way period by period, if it costs no more than the best other way.

    It may cost more if an earlier question counted the same in a period: questions about later
    periods are then likely, and use its rows again.
    """
    axis = ways.holdings.period_axis
    if axis is None:
        return best
    apart = PeriodWays(ways.question, ways.holdings, axis)
    found, best_nano = _best(ways.holdings, None, apart.candidates()), best.priced.price_nano
    if found is None or found.priced.price_nano > PLANNER.period_share * best_nano:
        return best
    paid = [] if rule is None else rule.scopes.paid
    return found if found.priced.price_nano <= best_nano or apart.returns(paid) else best


def _balanced(
    ways: RowCandidates, rule: RentOrBuy | None, best: _Direct, *, allowed_nano: int
) -> _Direct:
    """The way by a balanced row, where it is cheaper or the total is due and can be paid."""
    question, holdings = ways.question, ways.holdings
    if rule is None or question.measure == "only_this":
        return best
    total = rule.balanced_total(holdings)
    if total is None:
        return best
    way = BalancedWay(question, holdings, best=total)
    if not way.is_due:
        return _best(holdings, best, way.candidates()) or best
    found = _best(holdings, None, way.candidates())
    fits = found is not None and found.priced.spent_after_nano <= allowed_nano
    return found if found is not None and fits else best


def _best(holdings: Holdings, best: _Direct | None, others: Iterable[Candidate]) -> _Direct | None:
    """The best of one way and others."""
    for candidate in others:
        # Pricing many rows takes long, so a way that cannot be the best is not priced.
        if best is not None and _preference(candidate, 0) >= best.preference:
            continue
        found = _Direct(candidate, holdings.priced(candidate.purchase))
        if best is None or found.preference < best.preference:
            best = found
    return best


def _preference(candidate: Candidate, price_nano: int) -> tuple[int, int, int]:
    """The least price; of equal ones the least charge in all, then the fewest rows."""
    rows = candidate.rows
    return price_nano, sum(row.charge_nano for row in rows), len(rows)


def _offered(offer: PurchaseOffer, estimate: RowEstimate | None) -> Plan:
    """The plan that takes an offer of the rule."""
    purchase = offer.priced.purchase
    kind = "blocks" if purchase.tables else kind_of_rows(purchase.rows)
    plan = _plan(kind, offer.priced, estimate, offer.weights)
    return replace(plan, tables_give_rest=offer.tables_give_rest)


def _plan(
    kind: PlanKind, priced: Priced, estimate: RowEstimate | None, weights: Weights = ()
) -> Plan:
    purchase = priced.purchase
    return Plan(
        kind,
        purchase.rows,
        priced.price_nano,
        priced.spent_after_nano,
        estimate,
        weights,
        purchase.tables,
    )


P = TypeVar("P", bound=Plan)


def proven(plan: P, *, ledger: CellLedger, allowed_nano: int | None = None) -> P:
    """The plan at the least price that the ledger can prove; comparisons use quicker bounds.

    Args:
        ledger: the snapshot's charges.
        allowed_nano: most that may be spent. A plan that certainly passes it keeps the quick bound.
    """
    if plan.spent_after_nano <= ledger.spent_nano:
        return plan
    after = ledger.settled_after(plan.purchase.charges, allowed_nano=allowed_nano)
    price = after - ledger.spent_nano
    paid = tuple(replace(p, price_nano=min(p.price_nano, price)) for p in plan.paid)
    return replace(plan, spent_after_nano=after, price_nano=price, paid=paid)
