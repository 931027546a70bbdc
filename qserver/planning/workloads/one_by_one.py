"""The purchases of several questions, planned one by one and bought at once.

Each question is planned on the present state, by rows alone or by the rule. If two of them raise
the same row or block, only the greater raise is bought. So all together never cost more than the
sum of the single prices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qserver.inference.rows.tail import safe_half_width
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM, whole_of
from qserver.inference.tables.blocks.pattern import BlockKey, remainder
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, plan_answer
from qserver.planning.purchase import Priced, Purchase
from qserver.planning.workloads.workload_base import answered_with
from qserver.query.question import Question
from qserver.records.charge import NANO
from qserver.records.history import Estimator
from qserver.records.plan import PlannedRow

Single = Callable[[Question, Effort], Plan]
"""The plan of one question by itself; its work is counted."""


@dataclass(frozen=True)
class OneByOne:
    """A purchase, and per question weights that then meet it; None if inference finds them."""

    priced: Priced
    estimators: tuple[Estimator | None, ...]


def rows_alone(holdings: Holdings) -> Single:
    """Single plans by rows alone."""

    def single(question: Question, _effort: Effort) -> Plan:
        return plan_answer(question, holdings)

    return single


def plans_apart(
    holdings: Holdings, questions: Iterable[Question], single: Single, effort: Effort
) -> Iterator[Plan | None]:
    """Per question its single plan on the present state; a last None if the work is spent.

    Once half of the work is done, the other questions are planned by rows alone.
    """
    half, alone = PLANNER.work_part * effort.limit, rows_alone(holdings)
    for q in questions:
        if effort.is_spent:
            yield None
            return
        plan = (single if effort.done <= half else alone)(q, effort)
        # Free plans are not counted, so the other plans are the same without them.
        if plan.kind not in ("free", "exact"):
            n_rows = 0 if plan.estimate is None else len(plan.estimate.weights)
            effort.add(2.0 * PLANNER.evaluation_work + PLANNER.row_of_history_work * n_rows)
        yield plan


def one_by_one(
    holdings: Holdings,
    questions: Sequence[Question],
    *,
    below_nano: float,
    single: Single,
    effort: Effort | None = None,
) -> OneByOne | None:
    """All single plans at once; None if that is not cheaper, or takes too much work.

    Also None if two plans start the same row differently.

    Args:
        below_nano: the price must stay below this. The questions planned so far are priced each
            time their number has doubled, so that the search can end early.
        effort: counts the work of the single plans; without a limit by default.
    """
    plans, merged = list[Plan](), _Merged.of(holdings, ())
    for i, plan in enumerate(plans_apart(holdings, questions, single, effort or Effort()), start=1):
        if plan is None:
            return None
        plans.append(plan)
        if i & (i - 1) and i < len(questions):
            continue
        merged = _Merged.of(holdings, plans)
        if merged is None or merged.priced.price_nano >= below_nano:
            return None
    if merged is None:
        return None
    estimators = tuple(map(merged.estimator, questions, plans))
    triples = zip(questions, plans, estimators, strict=True)
    if not all(merged.meets(q, plan, e) for q, plan, e in triples):
        return None
    return OneByOne(merged.priced, estimators)


@dataclass(frozen=True, eq=False)
class _Merged:
    """Single plans as one purchase.

    Args:
        now: on the lattice used for answering now.
        holdings: on the lattice used for answering once the tables are measured.
        rows: each at its greatest raise, by key.
        raises: alphas of blocks likewise, in nano-epsilon.
    """

    now: Holdings
    holdings: Holdings
    rows: Mapping[str, PlannedRow]
    raises: Mapping[BlockKey, int]

    @classmethod
    def of(cls, now: Holdings, plans: Sequence[Plan]) -> _Merged | None:
        """The plans at once; None if they cannot be carried out together."""
        rows: dict[str, PlannedRow] = {}
        for row in (row for plan in plans for row in plan.rows):
            kept = rows.setdefault(row.key, row)
            alpha = max(kept.alpha_nano, row.alpha_nano)
            if replace(kept, alpha_nano=alpha) != replace(row, alpha_nano=alpha):
                return None
            rows[row.key] = replace(row, alpha_nano=alpha)
        planned = [table for plan in plans for table in plan.tables]
        holdings, raises = answered_with(now, [t.partition for t in planned]), dict[BlockKey, int]()
        for table in planned:
            block = holdings.engine.tables.block_of(table.partition)
            if block is None:
                return None
            raises[block] = max(raises.get(block, 0), table.alpha_nano)
        return cls(now, holdings, rows, raises)

    @cached_property
    def priced(self) -> Priced:
        """The whole purchase."""
        tables = self.holdings.tables(self.raises)
        return self.holdings.priced(Purchase(tuple(self.rows.values()), tables))

    def estimator(self, q: Question, plan: Plan) -> Estimator | None:
        """The weights of a single plan, with the ids that its new rows get among all new rows."""
        if not plan.weights:
            return None
        number, ids = self.holdings.engine.n_measurements, self._new_ids()
        new = [ids[row.key] for row in plan.rows if row.refines is None]
        weights = tuple((new[i - number] if i >= number else i, w) for i, w in plan.weights)
        if not plan.tables_give_rest:
            return Estimator(q.row.key, weights)
        # If the plan buys no tables, weights on the present tables are certainly kept.
        at = self.now.engine.tables.n_events
        bought = self.priced.purchase
        at += len(bought.rows) + len(bought.tables) if plan.tables else 0
        return Estimator(q.row.key, weights, at=at)

    def meets(self, q: Question, plan: Plan, estimator: Estimator | None) -> bool:
        """Whether the question is still met when other raises change the weights of its plan."""
        if estimator is None:
            return self._is_found_again(q)
        # With given weights on rows, or on present tables, noise only gets less.
        return not (plan.tables and plan.tables_give_rest) or self._gives_rest(q, plan)

    def _new_ids(self) -> Mapping[str, int]:
        """Ids that the new ones of the rows will have, by key."""
        new = [key for key, row in self.rows.items() if row.refines is None]
        return {key: self.holdings.engine.n_measurements + i for i, key in enumerate(new)}

    def _is_found_again(self, q: Question) -> bool:
        """Whether tables and own row, which other questions may raise further, meet this one."""
        if q.row.key not in self.rows and not self.raises:
            return self.holdings.is_met(q)
        # Answers may still be given on the present lattice, by the present tables.
        return self._is_known(q, self.holdings, self.raises) or (
            self.holdings is not self.now and self._is_known(q, self.now, {})
        )

    def _is_known(self, q: Question, holdings: Holdings, raises: Mapping[BlockKey, int]) -> bool:
        row, own = self.rows.get(q.row.key), holdings.own(q.row)
        known = holdings.engine.tables.known(
            q.row,
            own,
            alphas_nano=raises,
            row_alpha_nano=None if row is None else row.alpha_nano,
            step=holdings.table_step if row is None else row.step,
        )
        return known.is_within(q.row_half_width, q.confidence)

    def _gives_rest(self, q: Question, plan: Plan) -> bool:
        """Whether the raised tables give the rest of the plan's row with little enough noise."""
        (row,), ((_, weight),) = plan.rows, plan.weights
        row, tables = self.rows[row.key], self.holdings.engine.tables
        left = remainder(q.row.row, [(row.row, weight)])
        pattern, blocks = self.holdings.pattern(left), tables.blocks_with(self.raises)
        rest = None if pattern is None or left.multiplier != 1 else whole_of(blocks, pattern)
        if rest is None or not self.holdings.covers(left):
            return False
        scales = np.append(rest.scales(blocks.alphas), abs(weight) * NANO / row.alpha_nano)
        steps = tables.steps_with(self.raises, float(self.holdings.table_step))
        allowance = rest.allowance(steps) + FLOAT_ROOM * abs(weight) * float(row.step)
        noise = safe_half_width(scales, q.confidence)
        return noise + allowance <= q.row_half_width
