"""Many questions priced as one: the base is fitted to all of them once, or all are measured.

There is no rent or buy: the questions are known. The base found is scaled until every question
meets its requirement by the exact tail; against it stand the questions' own rows, measured
together (rows that share no cell share their price), the blocks that those are cells of, and, of
few questions, what each would buy by itself. The cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from qserver.answer import PlanKind, Simultaneous
from qserver.errors import CapacityError, RequirementError
from qserver.history import Estimator
from qserver.inference.engine import InferenceEngine, RowEstimate
from qserver.inference.lattice.pattern import BlockKey
from qserver.plan import PlannedRow
from qserver.planning.bought import Bought, roomy_half_width, row_half_width
from qserver.planning.demand import want_of
from qserver.planning.effort import never
from qserver.planning.ledger import CellLedger
from qserver.planning.one_by_one import Single, one_by_one, rows_alone
from qserver.planning.own_cells import OwnCells
from qserver.planning.planner import Plan, paid_question
from qserver.planning.purchase import Priced, Purchase
from qserver.planning.question import Question
from qserver.planning.scaling import Scaling, Verdict
from qserver.planning.star import fit_star, fitting, uses
from qserver.planning.wanted import Want, Wanted
from qserver.requirement import Requirement

_SAME_PRICE = 1e-6
_HELPED = 64


@dataclass(frozen=True)
class WorkloadPlan(Plan):
    """How many requirements are met at once.

    Args:
        estimators: per question weights that meet its requirement once all is released; None
            where inference finds such weights by itself.
        simultaneous: the confidence that all intervals hold at once, where that was asked for.
    """

    estimators: tuple[Estimator | None, ...] = ()
    simultaneous: Simultaneous | None = None


def each_alone(
    bought: Bought, questions: Sequence[Question], raises: Mapping[BlockKey, int]
) -> bool:
    """Whether each question meets its own requirement after these raises."""
    blocks = bought.engine.tables.blocks_with(raises)
    return all(
        bought.beside(q.query, blocks, own=bought.own(q.query)).known.is_within(
            roomy_half_width(q.query, q.requirement), q.requirement.confidence
        )
        for q in questions
    )


def simultaneous(questions: Sequence[Question]) -> list[Question]:
    """The same questions, each so sure that all intervals hold at once as sure as asked.

    By the union bound: delta / n each, where every question asked for the same delta. It needs
    nothing of how the errors depend on one another.

    Raises:
        RequirementError: the confidences differ.
    """
    if len({q.requirement.confidence for q in questions}) > 1:
        raise RequirementError("confidence", "be the same for all questions of a workload")
    return [
        replace(
            q,
            requirement=Requirement(
                q.requirement.length, 1.0 - (1.0 - q.requirement.confidence) / len(questions)
            ),
        )
        for q in questions
    ]


def wants_of(bought: Bought, questions: Sequence[Question]) -> list[Want]:
    """The questions as a base is fitted to them; empty where none can be fitted to all."""
    wants = list[Want]()
    for q in questions:
        target = roomy_half_width(q.query, q.requirement)
        confidence = q.requirement.confidence
        want = want_of(bought, q.query.row, half_width=target, confidence=confidence)
        if want is None:
            return []
        wants.append(want)
    return wants if len(fitting(bought, wants)) == len(wants) else []


def plan_workload(
    questions: Sequence[Question],
    *,
    engine: InferenceEngine,
    ledger: CellLedger,
    limit_nano: int,
    cells: OwnCells | None = None,
    verdict: Verdict = each_alone,
    single: Single | None = None,
    out_of_time: Callable[[], bool] = never,
) -> WorkloadPlan:
    """The cheapest plan found that meets every question; nothing is changed but caches.

    Questions that history meets already cost nothing. Its price is at most that of the own rows
    measured together and, where there was time to plan them all, that of the single plans. Of its
    paid questions the first bears all of the price.

    Args:
        cells: pairs of rows and cells found before; kept from one call to the next it saves time.
        verdict: what a purchase of blocks must pass; the hardest question comes first.
        single: the plan of one question by itself; by rows alone by default.
        out_of_time: once it says so, the best plan that was found so far is taken.

    Raises:
        CapacityError: a requirement is finer than the lattice.
    """
    bought = Bought(engine, ledger, limit_nano, cells or OwnCells())
    known = Known.of(bought, questions)
    return known.free if known.is_all else plan_unmet(bought, known, verdict, single, out_of_time)


def free_workload(bought: Bought, questions: Sequence[Question]) -> WorkloadPlan | None:
    """The plan where history meets every question, else None."""
    known = Known.of(bought, questions)
    return known.free if known.is_all else None


@dataclass(frozen=True, eq=False)
class Known:
    """What history says of the questions.

    Args:
        met: per question the estimate that meets its requirement, or None; None too for zero.
    """

    bought: Bought
    questions: Sequence[Question]
    met: tuple[RowEstimate | None, ...]

    @classmethod
    def of(cls, bought: Bought, questions: Sequence[Question]) -> Known:
        """Ask history."""
        return cls(bought, questions, tuple(_met(bought, q) for q in questions))

    @property
    def still(self) -> list[Question]:
        """The questions that something must be bought for."""
        pairs = zip(self.questions, self.met, strict=True)
        return [q for q, e in pairs if e is None and not q.query.is_zero]

    @property
    def is_all(self) -> bool:
        """Whether nothing must be bought."""
        return not self.still

    @property
    def estimators(self) -> tuple[Estimator | None, ...]:
        """Weights that keep a question met whatever is bought for the others."""
        pairs = zip(self.questions, self.met, strict=True)
        return tuple(
            e.estimator(q.query.key) if e is not None and e.needs_storing else None
            for q, e in pairs
        )

    @property
    def free(self) -> WorkloadPlan:
        """The plan where all are met."""
        kind: PlanKind = "exact" if all(q.query.is_zero for q in self.questions) else "free"
        spent = self.bought.ledger.spent_nano
        return WorkloadPlan(kind, (), 0, spent, None, estimators=self.estimators)


def plan_unmet(
    bought: Bought,
    known: Known,
    verdict: Verdict,
    single: Single | None,
    out_of_time: Callable[[], bool],
) -> WorkloadPlan:
    """The cheapest plan found where something must be bought; see `plan_workload`."""
    still, kept = known.still, known.estimators
    rows = _own_rows(bought, still)
    found = [
        *_whole_blocks(bought, rows, still, verdict, out_of_time),
        bought.priced(Purchase(rows)),
    ]
    if not out_of_time():
        found += _base(bought, still, verdict, out_of_time)
    best = min(found, key=lambda p: p.price_nano)
    # At a price that is all but the same, blocks serve later questions too.
    worth = 1.0 - _SAME_PRICE if best.purchase.tables else 1.0
    merged = one_by_one(
        bought,
        still,
        below_nano=worth * best.price_nano,
        single=single or rows_alone(bought),
        out_of_time=out_of_time,
    )
    if merged is not None:
        own = dict(zip(map(id, still), merged.estimators, strict=True))
        kept = tuple(own.get(id(q), e) for q, e in zip(known.questions, kept, strict=True))
        best = merged.priced
    return workload_plan(best, still, kept)


def workload_plan(
    best: Priced,
    paid_for: Sequence[Question],
    estimators: tuple[Estimator | None, ...],
    *,
    simultaneous: Simultaneous | None = None,
) -> WorkloadPlan:
    """The plan that buys this; the first of the questions paid for bears the price."""
    bought = best.purchase
    if not (bought.rows or bought.tables):
        paid_for = ()
    kind = _kind(bought, estimators)
    paid = tuple(
        paid_question(q.query, q.requirement, kind=kind, price_nano=0 if i else best.price_nano)
        for i, q in enumerate(paid_for)
    )
    return WorkloadPlan(
        kind,
        bought.rows,
        best.price_nano,
        best.spent_after_nano,
        None,
        tables=bought.tables,
        paid=paid,
        estimators=estimators,
        simultaneous=simultaneous,
    )


def _kind(bought: Purchase, estimators: Sequence[Estimator | None]) -> PlanKind:
    if bought.tables or not bought.rows:
        return "blocks" if bought.tables else "free"
    if any(row.old_alpha_nano for row in bought.rows):
        return "refined"
    new = any(e is not None and len(e.weights) > 1 for e in estimators)
    return "combined" if new else "fresh"


def _met(bought: Bought, q: Question) -> RowEstimate | None:
    """What history says of a question, where that meets its requirement."""
    if q.query.is_zero:
        return None
    target, confidence = row_half_width(q.query, q.requirement), q.requirement.confidence
    found = bought.engine.estimate(q.query, confidence=confidence, enough=target)
    return found if found is not None and found.half_width <= target else None


def _own_rows(bought: Bought, questions: Sequence[Question]) -> tuple[PlannedRow, ...]:
    """Every question's own row, the greatest raise where one is asked for twice.

    Of many the tables' help is not sought: that takes some 20 ms each.
    """
    rows: dict[str, PlannedRow] = {}
    for q in questions:
        if len(questions) <= _HELPED:
            row = bought.own_row(q.query, q.requirement)
        else:
            row = bought.own_row_alone(q.query, q.requirement)
        if row is None:
            raise CapacityError("The interval is shorter than the lattice of the noise allows.")
        kept = rows.get(row.key)
        if kept is None or row.alpha_nano > kept.alpha_nano:
            rows[row.key] = row
    return tuple(rows.values())


def _whole_blocks(
    bought: Bought,
    rows: Sequence[PlannedRow],
    questions: Sequence[Question],
    verdict: Verdict,
    out_of_time: Callable[[], bool],
) -> list[Priced]:
    """The blocks that the rows are cells of, where all are: at the same price they serve more."""
    raises: dict[BlockKey, int] = {}
    alphas = {row.key: row.alpha_nano for row in rows}
    for q in questions:
        pattern = bought.pattern(q.query)
        block = None if pattern is None else pattern.cell_of
        if block is None or not bought.is_candidate(block):
            return []
        before = bought.engine.tables.alpha_nano.get(block, 0)
        alpha = max(raises.get(block, before), alphas[q.query.key])
        if alpha > before:
            raises[block] = alpha
    if not raises or not verdict(bought, questions, raises):
        return []
    old = {block: bought.engine.tables.alpha_nano.get(block, 0) for block in raises}

    def part_of(part: float) -> dict[BlockKey, int]:
        return {b: old[b] + max(1, ceil(part * (a - old[b]))) for b, a in raises.items()}

    if bought.engine.tables.blocks.alphas and not out_of_time():
        # Beside what is there less may do.
        part = Scaling(bought, part_of, verdict, out_of_time).least_part(questions)
        raises = raises if part is None or part > 1.0 else part_of(part)
    return [bought.priced(Purchase(tables=bought.tables(raises)))]


def _base(
    bought: Bought,
    questions: Sequence[Question],
    verdict: Verdict,
    out_of_time: Callable[[], bool],
) -> list[Priced]:
    """The best base for the questions, scaled by the verdict; empty where there is none."""
    wants = wants_of(bought, questions)
    if not wants:
        return []
    wanted = Wanted()
    for want in wants:
        wanted.add(want)
    star = fit_star(bought, wanted.wants, out_of_time=out_of_time)

    def part_of(part: float) -> dict[BlockKey, int]:
        return bought.raises(star.alphas, part=part)

    ordered = [questions[i] for i in np.argsort(-uses(bought, star, wants))]
    part = Scaling(bought, part_of, verdict, out_of_time).least_part(ordered)
    if part is None:
        return []
    return [bought.priced(Purchase(tables=bought.tables(part_of(part))))]
