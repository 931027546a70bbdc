"""Many questions priced as one: by a base fitted to all, or by their own rows.

The rule of rent or buy is not needed, since the questions are known. The base found is scaled until
it meets every question by the exact tail. It is compared with the questions' own rows, measured
together (rows that share no cell share their price), with the blocks that those rows are cells of,
and with the single purchases of the questions. The cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from qserver.errors import CapacityError, RequirementError
from qserver.inference.engine import RowEstimate
from qserver.inference.tables.blocks.pattern import BlockKey
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.failures import sound
from qserver.planning.holdings import Holdings, extended, meeting
from qserver.planning.planner import Plan, paid_question
from qserver.planning.purchase import Priced, Purchase
from qserver.planning.workloads.one_by_one import Single, one_by_one, rows_alone
from qserver.planning.workloads.workload_base import (
    Scaling,
    are_about_all,
    best_on,
    places_of,
    view_of,
)
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.answer import PlanKind
from qserver.records.history import Estimator
from qserver.records.plan import PlannedRow
from qserver.records.statement import Simultaneous


@dataclass(frozen=True)
class WorkloadPlan(Plan):
    """A plan that meets many requirements at once.

    Args:
        estimators: per question weights that meet its requirement once all is released; None if
            inference finds such weights by itself.
        simultaneous: the confidence that all intervals hold at once, if that was asked for.
    """

    estimators: tuple[Estimator | None, ...] = ()
    simultaneous: Simultaneous | None = None


def simultaneous(questions: Sequence[Question]) -> list[Question]:
    """The questions at higher confidences, so that all intervals hold at once as asked.

    By the union bound each of n questions gets delta / n. That holds however the errors depend on
    one another.

    Raises:
        RequirementError: the confidences differ.
    """
    if len({q.confidence for q in questions}) > 1:
        raise RequirementError("confidence", "be the same for all questions of a workload")
    each = 1.0 - (1.0 - questions[0].confidence) / len(questions)
    return [q.with_requirement(Requirement(q.requirement.length, each)) for q in questions]


def plan_workload(
    questions: Sequence[Question],
    holdings: Holdings,
    *,
    rule: RentOrBuy | None = None,
    single: Single | None = None,
    effort: Effort | None = None,
) -> WorkloadPlan:
    """The cheapest plan found that meets every question; pure apart from caches.

    Questions that history meets cost nothing. The price is at most that of all own rows measured
    together. If there are few enough questions to plan each, it is also at most that of the single
    plans bought together. The first paid question bears the whole price.

    Args:
        rule: the rule for single questions; levels are learnt from its paid questions.
        single: plans one question by itself; by rows alone by default.
        effort: counts the work of the base; unlimited by default.

    Raises:
        CapacityError: a requirement is finer than the lattice.
    """
    known = MetQuestions.of(holdings, questions)
    if known.is_all:
        return known.free
    return plan_grown(holdings, known, rule, single, effort or Effort())


def plan_grown(
    holdings: Holdings,
    known: MetQuestions,
    rule: RentOrBuy | None,
    single: Single | None,
    effort: Effort,
) -> WorkloadPlan:
    """As `plan_unmet`, or with the tables extended to all sealed periods."""
    plan = plan_unmet(holdings, known, rule, single, effort)
    grown = partial(_extended, holdings, known, rule, effort)
    other = sound("extended tables", grown, holdings.on_fault)
    return plan if other is None or other.price_nano > plan.price_nano else other


def _extended(
    holdings: Holdings, known: MetQuestions, rule: RentOrBuy | None, effort: Effort
) -> WorkloadPlan | None:
    """The plan on tables with cells for all sealed periods; None if they have these cells."""
    then = extended(holdings, [q.row for q in known.still])
    if then is None:
        return None
    met = MetQuestions.of(then, known.questions)
    if met.is_all:
        # What history met before stays met by the same weights; the rest is the tables'.
        return workload_plan(then.priced(Purchase()), known.still, known.estimators)
    first = tuple(now or later for now, later in zip(known.met, met.met, strict=True))
    return plan_unmet(then, replace(met, met=first), rule, None, effort)


def plan_by_rows(questions: Sequence[Question], holdings: Holdings) -> WorkloadPlan:
    """Own rows of the unmet questions: found quickly, and no cheaper than `plan_workload`.

    Raises:
        CapacityError: a requirement is finer than the lattice.
    """
    known = MetQuestions.of(holdings, questions)
    if known.is_all:
        return known.free
    rows = _own_rows(holdings, known.still, Effort(), helped=False)
    return workload_plan(holdings.priced(Purchase(rows)), known.still, known.estimators)


def free_workload(holdings: Holdings, questions: Sequence[Question]) -> WorkloadPlan | None:
    """The plan if history meets every question, else None."""
    known = MetQuestions.of(holdings, questions)
    return known.free if known.is_all else None


@dataclass(frozen=True, eq=False)
class MetQuestions:
    """The questions of a workload, and which of them history meets.

    Args:
        met: per question the estimate that meets its requirement, or None; None for a zero query.
    """

    holdings: Holdings
    questions: Sequence[Question]
    met: tuple[RowEstimate | None, ...]

    @classmethod
    def of(cls, holdings: Holdings, questions: Sequence[Question]) -> MetQuestions:
        """Ask history."""
        return cls(holdings, questions, tuple(_met(holdings, q) for q in questions))

    @property
    def still(self) -> list[Question]:
        """The questions that need a purchase."""
        pairs = zip(self.questions, self.met, strict=True)
        return [q for q, e in pairs if e is None and not q.row.is_zero]

    @property
    def is_all(self) -> bool:
        """Whether nothing must be bought."""
        return not self.still

    @property
    def estimators(self) -> tuple[Estimator | None, ...]:
        """Weights that keep a question met, whatever is bought for the others."""
        pairs = zip(self.questions, self.met, strict=True)
        return tuple(
            e.estimator(q.row.key) if e is not None and e.needs_storing else None for q, e in pairs
        )

    @property
    def free(self) -> WorkloadPlan:
        """The plan where all are met."""
        kind: PlanKind = "exact" if all(q.row.is_zero for q in self.questions) else "free"
        spent = self.holdings.ledger.spent_nano
        return WorkloadPlan(kind, (), 0, spent, None, estimators=self.estimators)


def plan_unmet(
    holdings: Holdings,
    known: MetQuestions,
    rule: RentOrBuy | None,
    single: Single | None,
    effort: Effort,
) -> WorkloadPlan:
    """The cheapest plan found if something must be bought; see `plan_workload`."""
    still, kept, on_fault = known.still, known.estimators, holdings.on_fault
    helped = partial(_own_rows, holdings, still, effort)
    rows = sound("own rows", helped, on_fault) or _own_rows(holdings, still, effort, helped=False)
    alone = holdings.priced(Purchase(rows))
    blocks = partial(_bases, holdings, alone, still, rule, effort)
    best = _cheaper(holdings, still, alone, sound("base", blocks, on_fault) or ())
    # At about the same price blocks that were taken are better: they serve later questions, too.
    # Nor are many single plans worth their work.
    is_less = bool(best.purchase.tables) or len(still) > PLANNER.sample
    worth = 1.0 - PLANNER.noticeable if is_less else 1.0
    apart = partial(
        one_by_one,
        holdings,
        still,
        below_nano=worth * best.price_nano,
        single=single or rows_alone(holdings),
        effort=Effort(PLANNER.work_part * PLANNER.workload_work),
        rows=rows,
    )
    merged = sound("one by one", apart, on_fault)
    if merged is not None:
        own = dict(zip(map(id, still), merged.estimators, strict=True))
        kept = tuple(own.get(id(q), e) for q, e in zip(known.questions, kept, strict=True))
        best = merged.priced
    return workload_plan(best, still, kept)


def _cheaper(
    holdings: Holdings, questions: Sequence[Question], alone: Priced, blocks: Sequence[Priced]
) -> Priced:
    """The cheapest purchase; at one price blocks only if they weigh on no other cells."""
    best = min([*blocks, alone], key=lambda p: p.price_nano)
    is_tie = best.price_nano >= (1.0 - PLANNER.noticeable) * alone.price_nano
    return alone if is_tie and not are_about_all(holdings, questions) else best


def workload_plan(
    best: Priced,
    paid_for: Sequence[Question],
    estimators: tuple[Estimator | None, ...],
    *,
    simultaneous: Simultaneous | None = None,
) -> WorkloadPlan:
    """The plan of this purchase; the first paid question bears the price."""
    purchase = best.purchase
    if not (purchase.rows or purchase.tables):
        paid_for = ()
    kind = _kind(purchase, estimators)
    paid = tuple(
        paid_question(q, kind=kind, price_nano=0 if i else best.price_nano)
        for i, q in enumerate(paid_for)
    )
    return WorkloadPlan(
        kind,
        purchase.rows,
        best.price_nano,
        best.spent_after_nano,
        None,
        tables=purchase.tables,
        paid=paid,
        estimators=estimators,
        simultaneous=simultaneous,
    )


def _kind(purchase: Purchase, estimators: Sequence[Estimator | None]) -> PlanKind:
    if purchase.tables or not purchase.rows:
        return "blocks" if purchase.tables else "free"
    if any(row.old_alpha_nano for row in purchase.rows):
        return "refined"
    new = any(e is not None and len(e.weights) > 1 for e in estimators)
    return "combined" if new else "fresh"


def _met(holdings: Holdings, q: Question) -> RowEstimate | None:
    """The estimate from history, if it meets the requirement."""
    return None if q.row.is_zero else meeting(holdings.engine, q)


def _own_rows(
    holdings: Holdings, questions: Sequence[Question], effort: Effort, *, helped: bool = True
) -> tuple[PlannedRow, ...]:
    """Own row of every question, at the greatest raise if shared.

    Many questions get rows that meet them without help from tables.
    """
    rows: dict[str, PlannedRow] = {}
    is_helped = helped and len(questions) <= PLANNER.sample
    own_row = holdings.own_row if is_helped else holdings.own_row_alone
    for q in questions:
        effort.add(PLANNER.evaluation_work)
        row = own_row(q)
        if row is None:
            raise CapacityError("The interval is shorter than the lattice of the noise allows.")
        kept = rows.get(row.key)
        if kept is None or row.alpha_nano > kept.alpha_nano:
            rows[row.key] = row
    return tuple(rows.values())


def _bases(
    holdings: Holdings,
    alone: Priced,
    questions: Sequence[Question],
    rule: RentOrBuy | None,
    effort: Effort,
) -> list[Priced]:
    """Purchases of blocks in place of the rows alone, on the most promising lattice."""
    found, rows = list[Priced | None](), alone.purchase.rows
    if not effort.is_spent and all(holdings.covers(q.row) for q in questions):
        view = view_of(holdings, questions, rule, effort)
        found.append(_whole_blocks(holdings, view, rows, questions, effort))
        if not effort.is_spent:
            most_nano = alone.price_nano
            found.append(best_on(holdings, view, questions, effort, most_nano=most_nano))
    return [p for p in found if p is not None]


def _whole_blocks(
    holdings: Holdings,
    view: Holdings,
    rows: Sequence[PlannedRow],
    questions: Sequence[Question],
    effort: Effort,
) -> Priced | None:
    """The blocks that have all rows as cells, if any: they serve more at the same price."""
    alphas = {row.key: row.alpha_nano for row in rows}
    asked: dict[BlockKey, int] = {}
    for q in questions:
        effort.add(PLANNER.evaluation_work)
        pattern = view.pattern(q.row)
        block = None if pattern is None else pattern.cell_of
        if block is None or not view.is_candidate(block):
            return None
        asked[block] = max(asked.get(block, 0), alphas[q.row.key])
    places = places_of(holdings, view, list(asked))
    if places is None:
        return None
    after = places.holdings
    old = {b: after.engine.tables.alpha_nano.get(b, 0) for b in places.by_block.values()}
    raises = {places.by_block[b]: a for b, a in asked.items() if a > old[places.by_block[b]]}
    if not all(map(after.may_raise, raises)):
        return None

    def part_of(part: float) -> dict[BlockKey, int]:
        return {b: old[b] + max(1, ceil(part * (a - old[b]))) for b, a in raises.items()}

    scaling, part = Scaling(after, part_of, effort), 1.0
    if not raises or not scaling.meets(part, questions):
        return None
    if after.engine.tables.blocks.alphas:
        # Together with present blocks, less may suffice.
        part = min(part, scaling.least_part(questions) or part)
    return after.priced(Purchase(tables=after.tables(part_of(part))))
