"""A snapshot whose counts are all zero, played without a store: to count intervals that miss.

An interval misses just when the error of its estimate is larger than its half-width, and the error
does not depend on the counts. So what is released is noise, drawn by the continuous law in vectors
and put on the lattice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.engine import InferenceEngine
from qserver.ledger.cell_ledger import CellLedger
from qserver.planning.blocks.earlier_questions import EarlierDemand
from qserver.planning.blocks.rent_or_buy import RentOrBuy
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.planning.holdings import Holdings
from qserver.planning.own_cells import OwnCells
from qserver.planning.planner import Plan, plan_answer, proven
from qserver.planning.purchase import Purchase
from qserver.query.linear_query import total_query
from qserver.query.primitive import Primitive, primitive
from qserver.query.question import Question
from qserver.query.requirement import Requirement
from qserver.records.charge import NANO, AnyCharge, Relation
from qserver.records.history import (
    AnyMeasurement,
    Estimator,
    Measurement,
    TableMeasurement,
    measured_under,
)
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import PlannedRow, PlannedTable
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

LIMIT_NANO = 10**13


@dataclass
class Snapshot:
    """Engine, ledger and rule of a snapshot, grown by the plans that are carried out.

    Args:
        rule: when to buy blocks; None never does.
        is_total: whether every record lies in the domain; its total is public under replace-one.
        generator: of the noise.
        earlier: what was asked of earlier data.
        period_axis: the attribute of periods, where data arrive over time.
        n_sealed: periods that have their data.
        law: of the noise; under Gaussian noise what is spent is rho.
    """

    sizes: tuple[int, ...]
    relation: Relation = "add-remove"
    k: int = 1
    limit_nano: int = LIMIT_NANO
    rule: RentOrBuy | None = field(default_factory=RentOrBuy)
    is_total: bool = False
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    earlier: EarlierDemand | None = None
    period_axis: int | None = None
    n_sealed: int = 0
    law: NoiseLaw = LAPLACE
    engine: InferenceEngine = field(init=False)
    ledger: CellLedger = field(init=False)
    live: list[AnyMeasurement] = field(default_factory=list)
    events: list[AnyMeasurement | Estimator] = field(default_factory=list)
    charges: list[AnyCharge] = field(default_factory=list)
    paid: list[PaidQuestion] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = InferenceEngine(self.sizes, apart=self.period_axis, law=self.law)
        self.ledger = self._ledger()
        if self.relation == "replace-one" and self.is_total and self.k == 1:
            row = primitive(total_query(self.sizes))
            self._take(Measurement(0, row.row, row.key, 0, Fraction(1), 0))

    @property
    def holdings(self) -> Holdings:
        """The planner's view of what there is."""
        cells = OwnCells() if self.rule is None else self.rule.cells
        return Holdings(
            self.engine,
            self.ledger,
            self.limit_nano,
            cells,
            self.period_axis,
            range(self.n_sealed),
        )

    def plan(
        self, query: Primitive, requirement: Requirement, effort: Effort | None = None
    ) -> Plan:
        """The plan for one question, its work counted in `effort`, too."""
        plan = plan_answer(
            question_of(query, requirement),
            self.holdings,
            rule=self.rule,
            earlier=self.earlier,
            effort=Effort(PLANNER.question_work, effort),
        )
        return proven(plan, ledger=self.ledger, allowed_nano=self.limit_nano)

    def single(self, question: Question, effort: Effort) -> Plan:
        """The plan of one question of a workload."""
        return self.plan(question.row, question.requirement, effort)

    def plan_by_rows(self, query: Primitive, requirement: Requirement) -> Plan:
        """The plan by rows alone, whatever the rule."""
        plan = plan_answer(question_of(query, requirement), self.holdings)
        return proven(plan, ledger=self.ledger)

    def ask(self, query: Primitive, requirement: Requirement) -> Plan:
        """Plan, and carry it out if it can be paid."""
        plan = self.plan(query, requirement)
        if plan.spent_after_nano <= self.limit_nano:
            self.carry_out(plan, query)
        return plan

    def carry_out(self, plan: Plan, query: Primitive | None = None) -> None:
        """Charge, release and write down, as the worker does."""
        self.buy(Purchase(plan.rows, plan.tables))
        self.ledger.cap(plan.spent_after_nano)
        if plan.weights and plan.rows and query is not None:
            at = self.engine.tables.n_events if plan.tables_give_rest else None
            self._keep(Estimator(query.key, plan.weights, at=at))
        for paid in plan.paid:
            self.paid.append(paid)
            if self.rule is not None:
                self.rule.take_in(PaidQuestion.from_json(paid.to_json(), self.sizes))

    def buy(self, purchase: Purchase) -> None:
        """Charge and release."""
        self.charges.extend(purchase.charges)
        self.ledger.extend(purchase.charges)
        for row in purchase.rows:
            self._take(self._released_row(row))
        for table in purchase.tables:
            self._take(self._released_table(table))

    def error(self, query: Primitive, plan: Plan, requirement: Requirement) -> float:
        """Error of the answer that a plan leads to, in records of the row."""
        found = self.engine.estimate_with(
            query,
            plan.weights,
            confidence=requirement.confidence,
            enough=question_of(query, requirement).row_half_width,
            tables_give_rest=plan.tables_give_rest,
        )
        if found is None:
            raise RuntimeError("A question was planned and is not answered.")
        return found.posterior.estimate

    def replayed(self) -> Snapshot:
        """The same from the public facts alone: events, charges, paid questions."""
        rule = None if self.rule is None else RentOrBuy(self.rule.phi)
        copy = Snapshot(
            self.sizes,
            "add-remove",
            self.k,
            self.limit_nano,
            rule,
            self.is_total,
            period_axis=self.period_axis,
            n_sealed=self.n_sealed,
            law=self.law,
        )
        copy.relation, copy.ledger = self.relation, self._ledger()
        copy.earlier = None if self.earlier is None else EarlierDemand(self.earlier.snapshots)
        for event in self.events:
            copy._keep(event)
        copy.ledger.extend(self.charges)
        copy.ledger.cap(self.ledger.spent_nano)
        for paid in self.paid:
            if rule is not None:
                rule.take_in(paid)
        return copy

    def _ledger(self) -> CellLedger:
        return CellLedger(
            self.sizes,
            relation=self.relation,
            records_per_person=self.k,
            null_cell=not self.is_total,
            law=self.law,
        )

    def _take(self, measurement: AnyMeasurement) -> None:
        measurement = measured_under(self.law, measurement)
        if measurement.id == len(self.live):
            self.live.append(measurement)
        self.live[measurement.id] = measurement
        self._keep(measurement)

    def _keep(self, event: AnyMeasurement | Estimator) -> None:
        self.engine.extend([event])
        self.events.append(event)

    def _released_row(self, planned: PlannedRow) -> Measurement:
        number = len(self.live) if planned.refines is None else planned.refines
        step, old = float(planned.step), np.zeros(1)
        if planned.cell is not None:
            old = _cells(self.live[planned.cell.table])[[planned.cell.cell]]
        elif planned.refines is not None:
            old = _cells(self.live[planned.refines])
        (noise,) = self._raised(old, planned.old_alpha_nano, planned.alpha_nano)
        index = round(noise / step)
        return Measurement(
            number, planned.row, planned.key, planned.alpha_nano, planned.step, index
        )

    def _released_table(self, planned: PlannedTable) -> TableMeasurement:
        number = len(self.live) if planned.refines is None else planned.refines
        old = np.zeros(planned.partition.n_cells)
        if planned.refines is not None:
            old = _cells(self.live[planned.refines])
        noise = self._raised(old, planned.old_alpha_nano, planned.alpha_nano)
        for source in planned.sources:
            own = _cells(self.live[source.row])
            if source.alpha_nano < planned.alpha_nano:
                own = self._raised(own, source.alpha_nano, planned.alpha_nano)
            noise[source.cell] = own[0]
        indices = tuple(map(int, np.rint(noise / float(planned.step))))
        return TableMeasurement(
            number, planned.partition, planned.alpha_nano, planned.step, indices
        )

    def _raised(self, noise: FloatArray, before_nano: int, after_nano: int) -> FloatArray:
        """The noise at a larger alpha, given that at the one before; fresh noise where it is 0."""
        before, after = before_nano / NANO, after_nano / NANO
        if self.law.is_additive:
            return self.generator.normal(0.0, self.law.scale(after_nano), noise.shape)
        if not before:
            return self.generator.laplace(0.0, 1.0 / after, noise.shape)
        return _refined(self.generator, noise, before, after)


def question_of(query: Primitive, requirement: Requirement) -> Question:
    """The question whose normal form this is."""
    return Question(query.row.scaled(query.multiplier), requirement)


def _cells(measured: AnyMeasurement) -> FloatArray:
    """The released answers of a table's cells, or of a row."""
    if isinstance(measured, TableMeasurement):
        return measured.values.ravel()
    return np.array([measured.value_float])


def _refined(
    generator: np.random.Generator, noise: FloatArray, before: float, after: float
) -> FloatArray:
    """The noise at 1 / b = `after`, given that at `before`: the law of design and README."""
    u = generator.uniform(size=noise.shape)
    size, sign = np.abs(noise), np.where(noise < 0.0, -1.0, 1.0)
    gap = after - before
    stay = before / after * np.exp(-gap * size)
    other = gap / (2.0 * after)
    between = (before + after) / (2.0 * after) * -np.expm1(-gap * size)
    tail = generator.exponential(1.0 / (before + after), noise.shape)
    within = -np.log1p(generator.uniform(size=noise.shape) * np.expm1(-gap * size)) / gap
    magnitude = np.where(
        u < stay,
        size,
        np.where(
            u < stay + other,
            -tail,
            np.where(u < stay + other + between, within, size + tail),
        ),
    )
    return np.asarray(sign * magnitude)
