"""Plans that no planner makes: what would be drawn from twice, or not be paid for, is refused."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import pytest

from qserver.errors import InputError, MeasurementError, StaleVersionError
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import primitive
from qserver.records.charge import AnyCharge, Charge, TableCharge
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.plan import CellSource, Planned, PlannedRow, PlannedTable, TableCell
from tests.ledger.losses_by_definition import Setting
from tests.ledger.table_losses_by_definition import greatest_loss
from tests.sweeps import n_of
from tests.worker.noise.one_by_one import each_new, each_refined
from tests.worker.noise.test_mechanism import branch_kernel, pmf_of
from tests.worker.spending.test_cell_chains import PARTITIONS, ROWS, SIZES, STEPS, Releases, Town
from worker.spending import measure as measuring
from worker.spending.answers_in_force import Live

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "an answer and its refinements together cost what the last of them costs; two draws from "
        "one answer would cost more, and a plan that makes them is refused whole",
    ),
]

G = Fraction(1, 8)
BY_A, COARSE, BOTH, TOTAL = PARTITIONS
N_TOWNS = n_of(150, share=60)
N_PLANS = 12


def table(alpha: int = 30) -> TableMeasurement:
    return TableMeasurement(0, BY_A, alpha, G, (100, 101, 102))


def row_of(query: LinearQuery, number: int, alpha: int) -> Measurement:
    return Measurement(number, query, primitive(query).key, alpha, G, 200 + number)


def fresh(query: LinearQuery, alpha: int) -> PlannedRow:
    return PlannedRow(query, primitive(query).key, alpha, G)


def from_cell(query: LinearQuery, alpha: int, *, old: int, cell: int) -> PlannedRow:
    return replace(fresh(query, alpha), old_alpha_nano=old, cell=TableCell(0, cell))


def charges_of(plan: Sequence[Planned]) -> list[AnyCharge]:
    return [
        Charge(p.row, p.charge_nano, "j")
        if isinstance(p, PlannedRow)
        else TableCharge(p.partition, p.charge_nano, p.paid, "j")
        for p in plan
    ]


def test_two_rows_from_one_cell_are_refused_which_would_cost_29_for_charges_of_11() -> None:
    """By enumeration: a table at 9, then two new rows at 10, each drawn from the same cell.

    In units of r = exp(-step): the three answers' law is D_9(i) K(j given i) K(k given i), and one
    record moves all of them by one step.
    """
    plan = [from_cell(BY_A.row(0), 10, old=9, cell=0)] * 2
    charged = charges_of([PlannedTable(BY_A, 9, G), *plan])
    paid = greatest_loss(charged, Setting(SIZES, "add-remove", 1, null_cell=False))
    assert paid == 9 + 1 + 1
    r = Fraction(9, 10)

    def law(i: int, j: int, k: int) -> Fraction:
        first = pmf_of(i, r**9)
        return first * branch_kernel(i, j, r**9, r**10) * branch_kernel(i, k, r**9, r**10)

    answers = itertools.product(range(-4, 6), repeat=3)
    worst = max(law(i, j, k) / law(i - 1, j - 1, k - 1) for i, j, k in answers)
    assert worst == r**-29 > r ** -int(paid)
    with pytest.raises(MeasurementError):
        Live([table(9)]).check(plan)


TABLE, ROW = table(), row_of(BY_A.row(1), 1, 50)
OWN = from_cell(BY_A.row(0), 70, old=30, cell=0)
RAISED = PlannedTable(BY_A, 60, G, 0, 30)
REFUSED: dict[str, tuple[Planned, ...]] = {
    "two rows from one cell": (OWN, replace(OWN, alpha_nano=80)),
    "a row from a cell whose row is new in the plan": (fresh(BY_A.row(0), 40), OWN),
    "a row from a cell and a raise of it": (OWN, PlannedRow(OWN.row, OWN.key, 90, G, 2, 70)),
    "a new row and a raise of it": (
        fresh(BOTH.row(0), 70),
        PlannedRow(BOTH.row(0), primitive(BOTH.row(0)).key, 90, G, 2, 70),
    ),
    "a row raised twice": (
        PlannedRow.refining(ROW, alpha_nano=60),
        PlannedRow.refining(ROW, alpha_nano=70),
    ),
    "a row raised twice, in turn": (
        PlannedRow.refining(ROW, alpha_nano=60),
        replace(PlannedRow.refining(ROW, alpha_nano=70), old_alpha_nano=60),
    ),
    "a table raised twice": (RAISED, replace(RAISED, alpha_nano=70)),
    "a table raised twice, in turn": (RAISED, replace(RAISED, alpha_nano=70, old_alpha_nano=60)),
    "a table raised before a row goes on from its cell": (RAISED, OWN),
    "two new tables of the same cells": (PlannedTable(BOTH, 60, G), PlannedTable(BOTH, 70, G)),
    "two new tables of the same cells on two lattices": (
        PlannedTable(BOTH, 60, G),
        PlannedTable(BOTH, 70, G / 2),
    ),
    "a new table that a row of the plan is not paired with": (
        OWN,
        PlannedTable(COARSE, 60, G, sources=(CellSource(0, 2, 70),)),
    ),
    "two new tables from one row": (
        fresh(BOTH.row(0), 70),
        PlannedTable(BOTH, 60, G, sources=(CellSource(0, 2, 70),)),
        PlannedTable(
            product_partition(SIZES, {0: [0, 1, 1], 1: [0, 1]}),
            60,
            G,
            sources=(CellSource(0, 2, 70),),
        ),
    ),
}


@pytest.mark.parametrize("plan", REFUSED.values(), ids=REFUSED.keys())
def test_plans_that_split_a_chain_or_raise_a_thing_twice_are_refused(
    plan: tuple[Planned, ...],
) -> None:
    with pytest.raises((MeasurementError, StaleVersionError)):
        Live([TABLE, ROW]).check(plan)


def test_what_each_of_them_does_by_itself_is_allowed() -> None:
    """Control: it is the plan as a whole that is refused."""
    for first, *_ in REFUSED.values():
        Live([TABLE, ROW]).check((first,))
    again = fresh(BY_A.row(0), 40)
    Live([TABLE, ROW]).check((OWN, again, replace(RAISED, sources=(CellSource(0, 2, 70),))))


@dataclass
class Forger(Town):
    """Plans of several rows and tables that mostly look right, each by itself or not even so."""

    def a_forged_row(self) -> PlannedRow:
        honest, choice = self.a_row(), self.chance.random()
        if choice < 0.4:
            return honest
        if choice < 0.5:
            return replace(honest, refines=None, old_alpha_nano=0, cell=None)
        tables = [m for m in self.live if isinstance(m, TableMeasurement)]
        rows = [m for m in self.live if isinstance(m, Measurement)]
        if choice < 0.75 and tables:
            home = self.chance.choice(tables)
            cell = self.chance.randrange(home.partition.n_cells)
            row, old = home.partition.row(cell), home.alpha_nano
            refines = self.chance.choice([None, None, *(m.id for m in rows)])
            place = TableCell(home.id, cell)
            return self._row(row, home.step, refines, old, place)
        if choice < 0.9 and rows:
            own = self.chance.choice(rows)
            return self._row(own.row, own.step, own.id, own.alpha_nano, None)
        number = self.chance.choice([None, len(self.live), self.chance.randrange(9)])
        old = 0 if number is None else self.chance.randint(1, 20)
        row, step = self.chance.choice(ROWS), self.chance.choice(STEPS)
        return self._row(row, step, number, old, None)

    def _row(
        self,
        row: LinearQuery,
        step: Fraction,
        refines: int | None,
        old: int,
        cell: TableCell | None,
    ) -> PlannedRow:
        alpha = old + self.chance.randint(1, 9)
        return PlannedRow(row, primitive(row).key, alpha, step, refines, old, cell)

    def a_forged_table(self) -> PlannedTable:
        honest = self.a_table()
        if self.chance.random() < 0.5:
            return honest
        if self.chance.random() < 0.3:
            return replace(honest, refines=None, old_alpha_nano=0, sources=())
        named = self.chance.sample(range(honest.partition.n_cells), 1)
        rows = [m for m in self.live if isinstance(m, Measurement)]
        sources = tuple(
            CellSource(cell, m.id, m.alpha_nano)
            for cell, m in zip(named, self.chance.sample(rows, min(1, len(rows))), strict=False)
            if m.alpha_nano > honest.old_alpha_nano
        )
        return replace(honest, sources=sources)

    def a_plan(self) -> list[Planned]:
        rows = [self.a_forged_row() for _ in range(self.chance.randint(0, 3))]
        tables = [self.a_forged_table() for _ in range(self.chance.randint(0, 2))]
        return [*rows, *tables] or [self.a_row()]


@pytest.mark.slow
def test_whatever_passes_continues_no_answer_twice_and_is_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Random plans, honest and forged: the sampler's stand-in watches every parent and rise."""
    ends = Counter[str]()
    for seed in range(N_TOWNS):
        releases = Releases()
        monkeypatch.setattr(measuring, "release", each_new(releases.release))
        monkeypatch.setattr(measuring, "release_refined", each_refined(releases.release_refined))
        town = Forger(random.Random(seed), releases)
        for _ in range(N_PLANS):
            plan = town.a_plan()
            try:
                Live(town.live).check(plan)
            except (MeasurementError, StaleVersionError, InputError):
                ends["refused"] += 1
                continue
            town.spend(*plan)
            ends["passed"] += 1
            ends["passed with several"] += len(plan) > 1
        assert all(town.cost[row] <= town.charged[row] for row in town.charged)
        ends["continued"] += len(releases.used)
    assert min(ends.values()) > N_TOWNS, ends
