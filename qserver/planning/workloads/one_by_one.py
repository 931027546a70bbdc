"""Several questions, planned one by one and bought at once.

Each question is planned on the present state, by rows alone or by the rule. If two of them raise
the same row or block, only the greater raise is bought. So the total never exceeds the sum of the
single prices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qserver.inference.rows.shortest_interval import safe_half_width
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM, whole_of
from qserver.inference.tables.blocks.pattern import BlockKey, remainder
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, plan_answer
from qserver.planning.purchase import Priced, Purchase
from qserver.planning.workloads.workload_base import answered_with
from qserver.query.question import Question
from qserver.records.history import Estimator
from qserver.records.plan import PlannedRow

Single = Callable[[Question, Effort], Plan]
"""The plan of one question by itself; its work is counted."""


@dataclass(frozen=True)
class OneByOne:
    """A purchase, and per question weights that meet it; None if inference finds them."""

    priced: Priced
    estimators: tuple[Estimator | None, ...]


def rows_alone(holdings: Holdings) -> Single:
    """Single plans by rows alone."""

    def single(question: Question, _effort: Effort) -> Plan:
        return plan_answer(question, holdings)

    return single


def work_apart(n_plans: int) -> float:
    """At least what so many single plans that are not free count."""
    return 2.0 * PLANNER.evaluation_work * n_plans


def plans_apart(
    holdings: Holdings, questions: Iterable[Question], single: Single, effort: Effort
) -> Iterator[Plan | None]:
    """Single plan per question on the present state; a last None if the work is spent.

    After half of the work, the other questions are planned by rows alone.
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
            effort.add(work_apart(1) + PLANNER.row_of_history_work * n_rows)
        yield plan


def one_by_one(
    holdings: Holdings,
    questions: Sequence[Question],
    *,
    below_nano: float,
    single: Single,
    effort: Effort | None = None,
    rows: Sequence[PlannedRow] = (),
) -> OneByOne | None:
    """All single plans at once; None if that is not cheaper, or takes too much work.

    Also None if two plans start the same row differently.

    Args:
        below_nano: the price must stay below this. The questions planned so far are priced each
            time their number has doubled, so that the search can end early.
        effort: counts the work of the single plans; unlimited by default.
        rows: own rows that meet the questions. The question with the dearest row is planned first,
            so that the search ends there if it is too dear. Among many questions, rows that cost
            nothing beside it are taken as they are.
    """
    first = _dearest(holdings, rows)
    ordered = sorted(questions, key=lambda q: q.row.key != first)
    plans, merged, own = list[Plan](), _Merged.of(holdings, ()), dict[str, Plan]()

    def planned(question: Question, effort: Effort) -> Plan:
        return own.get(question.row.key) or single(question, effort)

    for i, plan in enumerate(plans_apart(holdings, ordered, planned, effort or Effort()), start=1):
        # All together cost no less than one of them.
        if plan is None or plan.price_nano >= below_nano:
            return None
        plans.append(plan)
        if i == 1 and len(ordered) > PLANNER.sample:
            own.update(_by_own_rows(holdings, [row for row in rows if row.key != first], plan))
        if i & (i - 1) and i < len(ordered):
            continue
        merged = _Merged.of(holdings, plans)
        if merged is None or merged.priced.price_nano >= below_nano:
            return None
    if merged is None:
        return None
    estimators = list(map(merged.estimator, ordered, plans))
    triples = zip(ordered, plans, estimators, strict=True)
    if not all(merged.meets(q, plan, e) for q, plan, e in triples):
        return None
    found = dict(zip(map(id, ordered), estimators, strict=True))
    return OneByOne(merged.priced, tuple(found[id(q)] for q in questions))


def _dearest(holdings: Holdings, rows: Sequence[PlannedRow]) -> str:
    """Key of a row that costs about as much as all together; '' if none.

    Found by halving. Rows that share no cell cost together as much as the dearest.
    """
    some = list(rows)
    while len(some) > 1:
        halves = some[: len(some) // 2], some[len(some) // 2 :]
        some = max(halves, key=lambda half: holdings.priced(Purchase(tuple(half))).price_nano)
    return some[0].key if some else ""


def _by_own_rows(
    holdings: Holdings, rows: Sequence[PlannedRow], dearest: Plan
) -> Mapping[str, Plan]:
    """The own rows, by key, that cost nothing more beside the dearest plan; none if some overlap.

    Args:
        rows: without that of the dearest plan.
    """
    spent_nano, most_nano = holdings.ledger.spent_nano, dearest.price_nano
    dear = _dearer(holdings, rows, most_nano)
    found = {
        row.key: Plan("refined" if row.old_alpha_nano else "fresh", (row,), 0, spent_nano, None)
        for row in rows
        if row.key not in dear
    }
    merged = _Merged.of(holdings, [dearest, *found.values()])
    room = 1.0 + PLANNER.noticeable
    return {} if merged is None or merged.priced.price_nano > room * most_nano else found


def _dearer(holdings: Holdings, rows: Sequence[PlannedRow], most_nano: int) -> set[str]:
    """The keys of the rows that cost more than this now; none if all together do not.

    The price of one row takes far less than that of some together where the sum is bounded.
    """
    if holdings.priced(Purchase(tuple(rows))).price_nano <= most_nano:
        return set()
    return {row.key for row in rows if holdings.priced(Purchase((row,))).price_nano > most_nano}


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
            after = holdings.engine.tables.alphas_after([(table.partition, table.alpha_nano)])
            if not after:
                return None
            raises.update({b: max(raises.get(b, 0), alpha) for b, alpha in after.items()})
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
        """Future ids of the new rows, by key."""
        new = [key for key, row in self.rows.items() if row.refines is None]
        return {key: self.holdings.engine.n_measurements + i for i, key in enumerate(new)}

    def _is_found_again(self, q: Question) -> bool:
        """Whether tables and own row meet this question, however far others raise them."""
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
            row_alpha_nano=None if row is None else self.holdings.alpha_after(row, own),
            step=holdings.table_step if row is None else row.step,
        )
        return known.is_within(q.row_half_width, q.confidence)

    def _gives_rest(self, q: Question, plan: Plan) -> bool:
        """Whether the raised tables give the rest of the plan's row exactly enough."""
        (row,), ((_, weight),) = plan.rows, plan.weights
        row, tables = self.rows[row.key], self.holdings.engine.tables
        left = remainder(q.row.row, [(row.row, weight)])
        pattern, blocks = self.holdings.pattern(left), tables.blocks_with(self.raises)
        rest = None if pattern is None or left.multiplier != 1 else whole_of(blocks, pattern)
        if rest is None or not self.holdings.covers(left):
            return False
        law = blocks.law
        own = abs(weight) * law.scale(row.alpha_nano)
        scales = np.append(rest.scales(blocks.alphas), own)
        steps = tables.steps_with(self.raises, float(self.holdings.table_step))
        allowance = rest.allowance(steps) + FLOAT_ROOM * abs(weight) * float(row.step)
        noise = safe_half_width(scales, q.confidence, law)
        return noise + allowance <= q.row_half_width
