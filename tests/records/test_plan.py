"""What a plan measures: rows, tables, and what their noise continues from."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from qserver.errors import InputError
from qserver.query.class_grid import product_partition
from qserver.records.charge import TableCharge, on_domain
from qserver.records.codec import plain, read
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement, place_measurement
from qserver.records.paid_question import PaidQuestion
from qserver.records.plan import CellSource, PlannedRow, PlannedTable, TableCell
from tests.records.grown import History, grown

SIZES = (4, 2)
HALVES = product_partition(SIZES, {0: [0, 0, 1, 1]})
ROW = HALVES.row(1)
STEP = Fraction(1, 8)
TABLE = TableMeasurement(1, HALVES, 100, STEP, (3, -5))
MEASURED = Measurement(0, ROW, "k", 50, STEP, 7)


def planned(**changes: Any) -> PlannedTable:
    values = {"partition": HALVES, "alpha_nano": 300, "step": STEP, **changes}
    return PlannedTable(**values)


def test_values_of_a_table_have_the_shape_of_its_partition() -> None:
    partition = product_partition(SIZES, {0: [0, 1, 2, 2], 1: [0, 1]})
    table = TableMeasurement(0, partition, 10, STEP, (1, 2, 3, 4, 5, 6))
    assert table.values.tolist() == [[0.125, 0.25], [0.375, 0.5], [0.625, 0.75]]
    assert table.scale == 1e8


@pytest.mark.parametrize(
    "changes",
    [{"id": -1}, {"alpha_nano": 0}, {"step": Fraction(0)}, {"indices": (1,)}],
)
def test_a_table_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    values = {"id": 1, "partition": HALVES, "alpha_nano": 1, "step": STEP, "indices": (3, -5)}
    with pytest.raises(InputError):
        TableMeasurement(**{**values, **changes})


def test_rows_and_tables_share_one_sequence_of_ids() -> None:
    finer = TableMeasurement(1, HALVES, 300, STEP, (2, -4))
    history = grown(History("s", SIZES), [MEASURED, TABLE, finer])
    assert history.measurements == (MEASURED, finer)
    assert history.version == 3


@pytest.mark.parametrize(
    "event",
    [
        TableMeasurement(1, HALVES, 100, STEP, (2, -4)),
        TableMeasurement(1, HALVES, 300, STEP / 2, (2, -4)),
        TableMeasurement(1, product_partition(SIZES, {0: [0, 1, 1, 1]}), 300, STEP, (2, -4)),
        TableMeasurement(0, HALVES, 300, STEP, (2, -4)),
        TableMeasurement(3, HALVES, 300, STEP, (2, -4)),
        Measurement(1, ROW, "k", 300, STEP, 7),
    ],
)
def test_a_table_is_refined_by_the_same_table_with_less_noise_only(event: AnyMeasurement) -> None:
    rows: list[AnyMeasurement] = [MEASURED, TABLE]
    with pytest.raises(InputError):
        place_measurement(rows, event)
    assert rows == [MEASURED, TABLE]


@pytest.mark.parametrize(
    "plan",
    [
        planned(),
        planned(refines=1, old_alpha_nano=100),
        planned(
            refines=1,
            old_alpha_nano=100,
            sources=(CellSource(0, 4, 250), CellSource(1, 0, 900)),
        ),
    ],
)
def test_a_planned_table_comes_back_from_json(plan: PlannedTable) -> None:
    assert read(PlannedTable, json.loads(json.dumps(plain(plan))), on_domain(SIZES)) == plan


@pytest.mark.parametrize("refines", [None, 5])
def test_a_row_that_continues_from_a_cell_comes_back_from_json(refines: int | None) -> None:
    row = PlannedRow(ROW, "k", 300, STEP, refines, 100, TableCell(1, 1))
    assert read(PlannedRow, json.loads(json.dumps(plain(row))), on_domain(SIZES)) == row
    assert row.charge_nano == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"refines": 1},
        {"old_alpha_nano": 100},
        {"refines": 1, "old_alpha_nano": 300},
        {"sources": (CellSource(2, 0, 50),)},
        {"sources": (CellSource(1, 0, 50), CellSource(0, 4, 50))},
        {"sources": (CellSource(1, 0, 50), CellSource(1, 4, 50))},
        {"refines": 1, "old_alpha_nano": 100, "sources": (CellSource(1, 0, 100),)},
    ],
)
def test_a_planned_table_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        planned(**changes)


@pytest.mark.parametrize(
    ("refines", "old", "cell"),
    [(None, 300, TableCell(1, 1)), (None, 0, TableCell(1, 1)), (-1, 100, TableCell(1, 1))],
)
def test_a_row_continues_from_a_cell_with_less_alpha_only(
    refines: int | None, old: int, cell: TableCell
) -> None:
    with pytest.raises(InputError):
        PlannedRow(ROW, "k", 300, STEP, refines, old, cell)


def test_a_cell_pays_what_its_own_row_has_not_paid() -> None:
    sources = (CellSource(0, 4, 250), CellSource(1, 0, 900))
    plan = planned(refines=1, old_alpha_nano=100, sources=sources)
    assert plan.charge_nano == 200
    assert plan.paid == ((0, 150), (1, 200))
    TableCharge(plan.partition, plan.charge_nano, plan.paid, "job")


@pytest.mark.parametrize(
    "paid",
    [((0, 0),), ((0, 201),), ((1, 5), (0, 5)), ((1, 5), (1, 5)), ((2, 5),), ((-1, 5), (0, 5))],
)
def test_a_table_charge_with_more_paid_than_charged_is_refused(
    paid: tuple[tuple[int, int], ...],
) -> None:
    with pytest.raises(InputError):
        TableCharge(HALVES, 200, paid, "job")


@pytest.mark.parametrize("paid", [(), ((0, 1),), ((0, 200), (1, 1)), ((1, 200),)])
def test_cells_pay_from_a_nano_epsilon_up_to_all_of_it(paid: tuple[tuple[int, int], ...]) -> None:
    assert TableCharge(HALVES, 200, paid, "job").paid == paid


@pytest.mark.parametrize(
    ("changes", "is_live"),
    [
        ({}, True),
        ({"id": 2}, False),
        ({"alpha_nano": 99}, False),
        ({"step": STEP / 2}, False),
        ({"partition": product_partition(SIZES, {0: [0, 1, 1, 1]})}, False),
    ],
)
def test_a_plan_knows_the_table_that_it_was_made_on(changes: dict[str, Any], is_live: bool) -> None:
    values = {"id": 1, "partition": HALVES, "alpha_nano": 100, "step": STEP, "indices": (3, -5)}
    live = TableMeasurement(**{**values, **changes})
    assert planned(refines=1, old_alpha_nano=100).refines_live(live) is is_live


def test_a_paid_question_comes_back_from_json_to_the_bit() -> None:
    asked = PaidQuestion(ROW, 0.1 + 0.2, 1 / 3, "fresh", 2**60)
    assert PaidQuestion.from_json(asked.to_json(), SIZES) == asked
