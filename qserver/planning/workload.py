"""Many questions priced as one: the base is fitted to all of them once, or all are measured.

There is no rent or buy: the questions are known. The base found is scaled until every question
meets its requirement by the exact tail; against it stand the questions' own rows, measured
together (rows that share no cell share their price), and the blocks that those are cells of. The
cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qserver.answer import PlanKind
from qserver.errors import CapacityError, RequirementError
from qserver.inference.engine import InferenceEngine
from qserver.inference.lattice.pattern import BlockKey
from qserver.plan import PlannedRow
from qserver.planning.base import never
from qserver.planning.bought import Bought, roomy_half_width
from qserver.planning.demand import want_of
from qserver.planning.ledger import CellLedger
from qserver.planning.own_cells import OwnCells
from qserver.planning.planner import Plan, paid_question
from qserver.planning.purchase import Priced, Purchase
from qserver.planning.star import fit_star, fitting, uses
from qserver.planning.wanted import Want, Wanted
from qserver.primitive import Primitive
from qserver.requirement import Requirement

_SCALINGS = 10
_LARGEST_PART = 64.0


@dataclass(frozen=True, eq=False)
class Question:
    """A query with its requirement."""

    query: Primitive
    requirement: Requirement


Verdict = Callable[[Bought, Sequence[Question], Mapping[BlockKey, int]], bool]
"""Whether all questions are met once blocks are raised to these alphas, in nano-epsilon."""


def each_alone(
    bought: Bought, questions: Sequence[Question], raises: Mapping[BlockKey, int]
) -> bool:
    """Whether each question meets its own requirement after these raises."""
    return all(
        bought.known(q.query, raises).half_width(q.requirement.confidence)
        <= roomy_half_width(q.query, q.requirement)
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


def plan_workload(
    questions: Sequence[Question],
    *,
    engine: InferenceEngine,
    ledger: CellLedger,
    limit_nano: int,
    cells: OwnCells | None = None,
    verdict: Verdict = each_alone,
    out_of_time: Callable[[], bool] = never,
) -> Plan:
    """The cheapest plan found that meets every question; nothing is changed but caches.

    Questions that history meets already cost nothing. Its price is at most that of the own rows
    measured together. Of its paid questions the first bears all of the price.

    Args:
        cells: pairs of rows and cells found before; kept from one call to the next it saves time.
        verdict: what a purchase of blocks must pass; the hardest question comes first.
        out_of_time: once it says so, the best plan that was found so far is taken.

    Raises:
        CapacityError: a requirement is finer than the lattice.
    """
    bought, spent = Bought(engine, ledger, limit_nano, cells or OwnCells()), ledger.spent_nano
    asked = [q for q in questions if not q.query.is_zero]
    still = [q for q in asked if not bought.is_met(q.query, q.requirement)]
    if not still:
        kind: PlanKind = "free" if asked else "exact"
        return Plan(kind, (), 0, spent, None)
    rows = _own_rows(bought, still)
    found = [*_whole_blocks(bought, rows, still, verdict), bought.priced(Purchase(rows))]
    if not out_of_time():
        found += _base(bought, still, verdict, out_of_time)
    best = min(found, key=lambda p: p.price_nano)
    return _plan(best, still)


def _plan(best: Priced, questions: Sequence[Question]) -> Plan:
    bought = best.purchase
    kind: PlanKind = "blocks" if bought.tables else "fresh"
    if any(row.old_alpha_nano for row in bought.rows):
        kind = "refined"
    paid = tuple(
        paid_question(q.query, q.requirement, kind=kind, price_nano=0 if i else best.price_nano)
        for i, q in enumerate(questions)
    )
    return Plan(
        kind, bought.rows, best.price_nano, best.spent_after_nano, None, (), bought.tables, paid
    )


def _own_rows(bought: Bought, questions: Sequence[Question]) -> tuple[PlannedRow, ...]:
    """Every question's own row, the greatest raise where one is asked for twice."""
    rows: dict[str, PlannedRow] = {}
    for q in questions:
        row = bought.own_row(q.query, q.requirement)
        if row is None:
            raise CapacityError("The interval is shorter than the lattice of the noise allows.")
        kept = rows.get(row.key)
        if kept is None or row.alpha_nano > kept.alpha_nano:
            rows[row.key] = row
    return tuple(rows.values())


def _whole_blocks(
    bought: Bought, rows: Sequence[PlannedRow], questions: Sequence[Question], verdict: Verdict
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
    return [bought.priced(Purchase(tables=bought.tables(raises)))]


def _base(
    bought: Bought,
    questions: Sequence[Question],
    verdict: Verdict,
    out_of_time: Callable[[], bool],
) -> list[Priced]:
    """The best base for the questions, scaled by the verdict; empty where there is none."""
    wants = list[Want]()
    for q in questions:
        target = roomy_half_width(q.query, q.requirement)
        confidence = q.requirement.confidence
        want = want_of(bought, q.query.row, half_width=target, confidence=confidence)
        if want is None:
            return []
        wants.append(want)
    if len(fitting(bought, wants)) < len(wants):
        return []
    wanted = Wanted()
    for want in wants:
        wanted.add(want)
    star = fit_star(bought, wanted.wants, out_of_time=out_of_time)
    # The hardest first: a part that is too small fails at once.
    hardest = [questions[i] for i in np.argsort(-uses(bought, star, wants))]

    def raises(part: float) -> dict[BlockKey, int]:
        return bought.raises(star.alphas, part=part)

    low, high = 0.0, 1.0
    while not verdict(bought, hardest, raises(high)):
        low, high = high, high * 1.1
        if high > _LARGEST_PART or out_of_time():
            return []
    for _ in range(_SCALINGS):
        if out_of_time():
            break
        middle = 0.5 * (low + high)
        low, high = (low, middle) if verdict(bought, hardest, raises(middle)) else (middle, high)
    return [bought.priced(Purchase(tables=bought.tables(raises(high))))]
