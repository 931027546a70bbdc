"""Plans on random histories of data that arrive: none fails, and each is met by what it buys.

The same on whole deployments, for long: `python -m tests.service.statement_fuzz`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, plan_answer
from qserver.planning.workloads.workload import plan_workload
from qserver.query.asking.after_looking import Looking
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.query.weights import indicator, interval
from qserver.records.charge import NANO
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from qserver.records.plan import PlannedRow, PlannedTable
from tests.sweeps import n_of

SIZES = (6, 2)
WORK = 20_000.0


class History:
    """A snapshot whose weeks arrive, and what was bought of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.engine, self.ledger = InferenceEngine(SIZES, apart=0), CellLedger(SIZES)
        self.rule, self.sealed = RentOrBuy(0.7), self.random.randint(2, 3)

    @property
    def holdings(self) -> Holdings:
        return Holdings(
            self.engine,
            self.ledger,
            1000 * NANO,
            self.rule.cells,
            period_axis=0,
            kept=range(self.sealed),
        )

    def count(self, low: int, high: int, sex: int | None) -> LinearQuery:
        chosen = {0: interval(6, low, high)}
        if sex is not None:
            chosen[1] = indicator(2, [sex])
        return linear_query(SIZES, [(Fraction(1), chosen)])

    def questions(self) -> list[Question]:
        """A count, counts by week, running totals, or shares of all by week."""
        rng, n = self.random, self.sealed
        length, sex = rng.choice([10.0, 30.0, 60.0, 120.0]), rng.choice([None, None, 0, 1])
        low, high = sorted(rng.sample(range(n + 1), 2))
        ranges = {
            "count": [(low, high)],
            "weeks": [(i, i + 1) for i in range(n)],
            "totals": [(0, i + 1) for i in range(n)],
            "shares": [*((i, i + 1) for i in range(n)), (0, n)],
        }[rng.choice(["count", "count", "weeks", "totals", "shares"])]
        requirement = Requirement(length, 0.95)
        return [Question(self.count(a, b, sex), requirement) for a, b in ranges]

    def step(self) -> None:
        """Ask, or let a week arrive; what is planned is bought, and must meet what was asked."""
        rng = self.random
        if rng.random() < 0.3 and self.sealed < 6:
            self.sealed += 1
        asked = self.questions()
        if len(asked) > 1:
            many = plan_workload(asked, self.holdings, rule=self.rule, effort=Effort(WORK))
            self.buy(many)
            for q, e in zip(asked, many.estimators, strict=True):
                found = self.engine.estimate(q.row, confidence=q.confidence)
                if e is not None:
                    found = self.engine.estimate_after(q.row, e, confidence=q.confidence)
                assert found is not None
                assert found.half_width <= q.row_half_width
            return
        (question,) = asked
        if rng.random() < 0.3:
            question = replace(question, looking=Looking(independent=True))
        plan = plan_answer(question, self.holdings, rule=self.rule, effort=Effort(WORK))
        self.buy(plan)
        found = self.engine.estimate_with(
            question.row,
            plan.weights,
            confidence=question.confidence,
            tables_give_rest=plan.tables_give_rest,
        )
        assert found is not None
        assert found.half_width <= question.row_half_width

    def buy(self, plan: Plan) -> None:
        """Measure what is planned, whatever comes out."""
        self.ledger.extend(plan.purchase.charges)
        bought: tuple[PlannedRow | PlannedTable, ...] = (*plan.rows, *plan.tables)
        for planned in bought:
            number = self.engine.n_measurements if planned.refines is None else planned.refines
            alpha, step = planned.alpha_nano, planned.step
            found: AnyMeasurement
            if isinstance(planned, PlannedTable):
                zeros = (0,) * planned.partition.n_cells
                found = TableMeasurement(number, planned.partition, alpha, step, zeros)
            else:
                found = Measurement(number, planned.row, planned.key, alpha, step, 0)
            self.engine.extend([found])
        for paid in plan.paid:
            self.rule.take_in(paid)


@pytest.mark.parametrize("seed", range(n_of(60, share=2)))
def test_whatever_was_asked_before_a_plan_is_found_and_met(seed: int) -> None:
    """No fault is caught here: the first one ends the test."""
    history = History(seed)
    for _ in range(5):
        history.step()
