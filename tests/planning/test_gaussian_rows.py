"""Plans under Gaussian noise: rows anew, the least that meets the question with what is known."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri

from qserver.errors import CapacityError, InputError
from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.ledger.one_person import ByPeriod, Neighbours
from qserver.planning.fresh_row import fresh_charge_nano
from qserver.planning.holdings import Holdings
from qserver.planning.planner import Plan, plan_answer
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import linear_query
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.charge import NANO, Relation, TableCharge
from qserver.records.history import (
    GaussianMeasurement,
    TableMeasurement,
    WeighedTable,
    measured_under,
)
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE
from tests.query.dense_weights import scaled_weights

SIZES, LIMIT = (6, 4), 10**10
BY_FIRST_TABLE = product_partition(SIZES, {0: list(range(6))})


@dataclass
class Played:
    """What is measured, with answers of no weight."""

    engine: InferenceEngine = field(default_factory=lambda: InferenceEngine(SIZES, law=GAUSSIAN))
    ledger: CellLedger = field(default_factory=lambda: CellLedger(SIZES, law=GAUSSIAN))

    def ask(self, question: Question) -> Plan:
        plan = plan_answer(question, Holdings(self.engine, self.ledger, LIMIT))
        self.ledger.extend(plan.purchase.charges)
        for row in plan.rows:
            number = self.engine.n_measurements
            new = GaussianMeasurement(number, row.row, row.key, row.alpha_nano, row.step, 0)
            self.engine.extend([new])
        return plan


def asked(rng: random.Random, length: float) -> Question:
    axes = {}
    for axis, size in enumerate(SIZES):
        if rng.random() < 0.7:
            chosen = rng.sample(range(size), rng.randint(1, size - 1))
            axes[axis] = scaled_weights([int(i in chosen) for i in range(size)])
    return Question(linear_query(SIZES, [(1, axes)]), Requirement(length, 0.95))


@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 1e-9])
def test_a_fresh_row_is_charged_the_least_rho_that_meets_the_length(confidence: float) -> None:
    requirement, step = Requirement(40, confidence), Fraction(1, 2**30)
    found = fresh_charge_nano(requirement, multiplier=Fraction(2), step=step, law=GAUSSIAN)
    quantile = -ndtri((1 - confidence) / 2)
    assert found == pytest.approx(NANO * (quantile / 10) ** 2 / 2, rel=1e-6)
    with pytest.raises(CapacityError):
        fresh_charge_nano(requirement, multiplier=Fraction(2), step=Fraction(30), law=GAUSSIAN)


@pytest.mark.parametrize("seed", range(6))
def test_every_question_is_met_by_rows_anew_for_the_rest_of_its_precision(seed: int) -> None:
    rng, played = random.Random(seed), Played()
    for _ in range(25):
        question = asked(rng, rng.choice([20.0, 40.0, 80.0]))
        before = played.engine.estimate_by_rows(question.row, confidence=0.95)
        plan = played.ask(question)
        then = played.engine.estimate(question.row, confidence=0.95, enough=1e-9)
        assert then is not None
        assert then.half_width <= question.row_half_width
        if plan.kind in ("free", "exact"):
            continue
        [row] = plan.rows
        assert (row.refines, row.old_alpha_nano, plan.tables) == (None, 0, ())
        # One over the wanted variance is the sum of what is known and of what is measured.
        wanted = 1 / (question.row_half_width / 1.959963984540054) ** 2
        known = 0.0 if before is None else 1 / before.posterior.error.variance
        assert 2 * row.alpha_nano / NANO + known == pytest.approx(wanted, rel=1e-4)


def test_least_squares_is_the_estimate_and_its_law_is_the_posterior() -> None:
    rng, played = random.Random(1), Played()
    for _ in range(20):
        played.ask(asked(rng, rng.choice([20.0, 40.0])))
    engine = played.engine
    rows = [engine.measurement(i) for i in range(engine.n_measurements)]
    cells = [(i, j) for i in range(SIZES[0]) for j in range(SIZES[1])]
    design = np.array([[float(m.row.value_at(c)) for c in cells] for m in rows])
    precisions = np.array([2 * m.alpha_nano / NANO for m in rows])
    question = asked(rng, 30.0)
    target = np.array([float(question.row.row.value_at(c)) for c in cells])
    information = design.T @ (design * precisions[:, None])
    variance = target @ np.linalg.pinv(information, rcond=1e-12) @ target
    found = engine.estimate(question.row, confidence=0.95)
    assert found is not None
    assert found.posterior.error.variance == pytest.approx(variance, rel=1e-6)
    assert engine.stated(question.row, found).statement.law == "posterior"


def test_tables_of_the_same_cells_are_weighed_by_their_charges() -> None:
    rng, tables, charges = random.Random(1), list[TableMeasurement](), (3, 1, 5)
    for i, rho in enumerate(charges):
        indices = tuple(rng.randrange(-(2**40), 2**40) for _ in range(BY_FIRST_TABLE.n_cells))
        found = measured_under(
            GAUSSIAN, TableMeasurement(i, BY_FIRST_TABLE, rho, Fraction(1, 3), indices)
        )
        assert isinstance(found, TableMeasurement)
        tables.append(found)
    assert measured_under(LAPLACE, tables[0]) is tables[0]
    with pytest.raises(InputError, match="Gaussian"):
        tables[1].check_refines(tables[0])
    both = WeighedTable.of(tables[0], tables[1])
    for every in (WeighedTable.of(both, tables[2]), WeighedTable.of(tables[2], both)):
        assert (every.id, every.ids, every.alpha_nano) == (0, (0, 1, 2), 9)
        assert every.scale == pytest.approx((2 * 9e-9) ** -0.5)
        for place, value in enumerate(every.values.ravel()):
            weighed = sum(c * t.indices[place] for c, t in zip(charges, tables, strict=True))
            assert value == pytest.approx(weighed / 27, rel=1e-14)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("most", [None, 1])
def test_a_base_is_planned_at_what_its_tables_cost_a_person(
    relation: Relation, most: int | None
) -> None:
    """Also where a person has three records, of one period or of several."""
    by = None if most is None else ByPeriod(0, SIZES[0], most)
    neighbours = Neighbours(relation, 3, True, by, GAUSSIAN)
    engine, ledger = InferenceEngine(SIZES, law=GAUSSIAN), CellLedger.like(SIZES, neighbours)
    holdings = Holdings(engine, ledger, LIMIT)
    for chosen in ([0], [1], [0, 1]):
        block = tuple((axis, 1) for axis in chosen)
        charge = TableCharge(engine.tables.partition_of(block), NANO, (), "job")
        assert holdings.cost_of(block) * NANO == neighbours.price_nano(charge)
