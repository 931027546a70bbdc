"""Many questions priced as one: the base is fitted to all of them once, or all are measured.

There is no rent or buy: the questions are known. The base found is scaled until the exact tail of
every question meets its requirement; against it stand the questions' own rows, measured together
(rows that share no cell share their price), and the cheaper of the two is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qserver.errors import RequirementError
from qserver.inference.lattice.beside import known_of
from qserver.inference.lattice.pattern import BlockKey
from qserver.planning.blocks_ledger import Purchase, Raise, RowRaise
from qserver.planning.bought import row_half_width
from qserver.planning.rent_or_buy import BlockPlan, RentOrBuy
from qserver.planning.star import fit_star, uses
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


def plan_workload(planner: RentOrBuy, questions: Sequence[Question]) -> BlockPlan:
    """The cheapest plan found that meets every question; nothing is spent before it is recorded.

    Questions that history meets already cost nothing. Its price is at most that of the own rows
    measured together.
    """
    bought = planner.bought
    still = [q for q in questions if not bought.is_met(q.query, q.requirement)]
    if not still:
        return BlockPlan("free", None, 0, bought.ledger.spent_nano)
    rows = _own_rows(planner, still)
    plans = [*_whole_blocks(planner, rows), rows, *_base(planner, still)]
    return planner.affordable(min(plans, key=lambda p: p.price_nano))


def _own_rows(planner: RentOrBuy, questions: Sequence[Question]) -> BlockPlan:
    """Every question's own row, the greatest raise where one is asked for twice."""
    rows: dict[str, RowRaise] = {}
    for q in questions:
        row = planner.bought.own_row(q.query, q.requirement)
        kept = rows.get(row.key)
        if kept is None or row.raised.after > kept.raised.after:
            rows[row.key] = row
    return planner.priced("direct", Purchase({}, tuple(rows.values())))


def _whole_blocks(planner: RentOrBuy, rows: BlockPlan) -> list[BlockPlan]:
    """The blocks that the rows are cells of, where all are: at the same price they serve more."""
    raised: dict[BlockKey, Raise] = {}
    for row in rows.purchase.rows if rows.purchase is not None else ():
        if row.cell_of is None:
            return []
        before = planner.bought.block_nano.get(row.cell_of, 0)
        kept = raised.get(row.cell_of, Raise(before, before))
        raised[row.cell_of] = Raise(before, max(kept.after, row.raised.after))
    return [planner.priced("blocks", Purchase(raised))]


def _base(planner: RentOrBuy, questions: Sequence[Question]) -> list[BlockPlan]:
    """The best base for the questions, scaled by the exact tails; empty where there is none."""
    bought, wants = planner.bought, list[Want]()
    for q in questions:
        pattern = bought.pattern(q.query)
        if pattern is None:
            return []
        half_width = row_half_width(q.query, q.requirement)
        wants.append(Want.of(pattern, half_width=half_width, requirement=q.requirement))
    wanted = Wanted()
    for want in wants:
        wanted.add(want)
    star = fit_star(bought, wanted.wants)
    # The hardest first: a part that is too small fails at once.
    hardest = [wants[i] for i in np.argsort(-uses(bought, star, wants))]

    def meets(part: float) -> bool:
        blocks = bought.blocks_with(bought.raises(star.alphas, part=part))
        return all(
            known_of(blocks, w.pattern, 0.0).half_width(w.confidence) <= w.half_width
            for w in hardest
        )

    low, high = 0.0, 1.0
    while not meets(high):
        low, high = high, high * 1.1
        if high > _LARGEST_PART:
            return []
    for _ in range(_SCALINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return [planner.priced("blocks", Purchase(bought.raises(star.alphas, part=high)))]
