"""What a draw may continue from: plans that are not in force, and which answer is the newest."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from qserver.errors import MeasurementError, StaleVersionError
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import primitive
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement
from qserver.records.plan import CellSource, PlannedRow, PlannedTable, TableCell
from worker.spending.answers_in_force import Live, Origin

SIZES = (3, 2)
G = Fraction(1, 8)
BY_A = product_partition(SIZES, {0: [0, 1, 2]})
# Shares its last cell with BY_A.
COARSE = product_partition(SIZES, {0: [0, 0, 1]})
BOTH = product_partition(SIZES, {0: [0, 1, 2], 1: [0, 1]})


def row_of(
    query: LinearQuery, number: int, alpha: int, index: int, step: Fraction = G
) -> Measurement:
    return Measurement(number, query, primitive(query).key, alpha, step, index)


# 0: a table of three cells. 1: its cell 2, with less noise. 2: its cell 0, with more noise.
TABLE = TableMeasurement(0, BY_A, 30, G, (100, 101, 102))
FINE = row_of(BY_A.row(2), 1, 50, 112)
ROUGH = row_of(BY_A.row(0), 2, 20, 120)
LIVE: list[AnyMeasurement] = [TABLE, FINE, ROUGH]
RAISED = PlannedTable(BY_A, 60, G, 0, 30, (CellSource(2, 1, 50),))
FROM_CELL = PlannedRow(ROUGH.row, ROUGH.key, 70, G, 2, 30, TableCell(0, 0))
NEW_FROM_CELL = PlannedRow(
    BY_A.row(1), primitive(BY_A.row(1)).key, 70, G, None, 30, TableCell(0, 1)
)


def test_plans_on_what_is_in_force_pass() -> None:
    Live(LIVE).check((FROM_CELL, NEW_FROM_CELL, PlannedRow.refining(FINE, alpha_nano=80)))
    Live(LIVE).check((RAISED, PlannedTable(BOTH, 10, G)))


def test_a_cell_continues_from_its_own_answer_or_from_its_rows_whichever_is_newer() -> None:
    found = Live(LIVE).origins_of_cells(RAISED)
    assert found == {0: Origin(100, 30), 1: Origin(101, 30), 2: Origin(112, 50)}


def test_a_row_continues_from_its_own_answer_or_from_its_cells_whichever_is_newer() -> None:
    live = Live(LIVE)
    assert live.origin_of_row(FROM_CELL) == Origin(100, 30)
    assert live.origin_of_row(NEW_FROM_CELL) == Origin(101, 30)
    assert live.origin_of_row(PlannedRow.refining(FINE, alpha_nano=80)) == Origin(112, 50)
    assert live.origin_of_row(PlannedRow(BOTH.row(0), "k", 5, G)) is None


def test_new_tables_continue_from_the_rows_that_are_their_cells() -> None:
    live = Live([row_of(BY_A.row(1), 0, 40, 7), row_of(BOTH.row(1), 1, 40, 8)])
    new = PlannedTable(BY_A, 30, G, sources=(CellSource(1, 0, 40),))
    live.check((new,))
    assert live.origins_of_cells(new) == {1: Origin(7, 40)}


def test_what_a_plan_does_not_name_counts_when_it_is_newer() -> None:
    """A row charged from its own answer, and a table without sources: drawn from the newest."""
    live = Live(LIVE)
    assert live.origin_of_row(PlannedRow.refining(ROUGH, alpha_nano=80)) == Origin(100, 30)
    assert live.origins_of_cells(replace(RAISED, sources=()))[2] == Origin(112, 50)


def test_rows_on_another_lattice_and_public_rows_are_no_origins() -> None:
    total = product_partition(SIZES, {})
    for other in (row_of(BY_A.row(2), 0, 50, 1, G / 2), row_of(total.row(0), 0, 0, 6)):
        live = Live([other])
        assert not live.origins_of_cells(PlannedTable(BY_A, 30, G))
        assert not live.origins_of_cells(PlannedTable(total, 30, G))


@pytest.mark.parametrize(
    "stale",
    [
        replace(FROM_CELL, old_alpha_nano=29),
        replace(FROM_CELL, cell=TableCell(0, 1)),
        replace(FROM_CELL, cell=TableCell(1, 0)),
        replace(FROM_CELL, cell=TableCell(9, 0)),
        replace(FROM_CELL, step=G / 2),
        replace(FROM_CELL, key="k"),
        replace(FROM_CELL, cell=None),
        replace(FROM_CELL, cell=None, refines=0),
        replace(FROM_CELL, cell=None, refines=9),
        replace(PlannedRow.refining(FINE, alpha_nano=80), cell=TableCell(0, 2), old_alpha_nano=30),
        replace(RAISED, refines=1),
        replace(RAISED, refines=9),
        replace(RAISED, old_alpha_nano=29),
        replace(RAISED, step=G / 2, sources=()),
        replace(RAISED, partition=COARSE, sources=()),
        replace(RAISED, refines=None, old_alpha_nano=0),
        replace(RAISED, sources=(CellSource(2, 1, 49),)),
        replace(RAISED, sources=(CellSource(1, 1, 50),)),
        replace(RAISED, sources=(CellSource(2, 0, 50),)),
        replace(RAISED, sources=(CellSource(2, 9, 50),)),
        PlannedTable(BOTH, 60, G, sources=(CellSource(2, 1, 50),)),
        PlannedTable(COARSE, 60, G / 2, sources=(CellSource(1, 1, 50),)),
    ],
    ids=repr,
)
def test_a_plan_on_anything_else_is_stale(stale: PlannedRow | PlannedTable) -> None:
    with pytest.raises(StaleVersionError):
        Live(LIVE).check((stale,))


def test_a_public_row_stands_in_no_pairs_way() -> None:
    everybody = product_partition(SIZES, {})
    noisy = row_of(everybody.row(0), 1, 20, 7)
    table = TableMeasurement(2, everybody, 30, G, (9,))
    live = Live([row_of(everybody.row(0), 0, 0, 6), noisy, table])
    raised = PlannedRow(noisy.row, noisy.key, 40, G, 1, 30, TableCell(2, 0))
    live.check((raised,))
    assert live.origin_of_row(raised) == Origin(9, 30)
    assert live.origin_of_row(PlannedRow.refining(noisy, alpha_nano=40)) == Origin(9, 30)


def test_a_row_is_paired_with_the_first_table_alone() -> None:
    """A second table with the same cell keeps its own chain: one row may not serve two tables."""
    second = TableMeasurement(3, COARSE, 10, G, (200, 201))
    live = Live([*LIVE, second])
    raised = PlannedTable(COARSE, 20, G, 3, 10)
    assert live.origins_of_cells(raised)[1] == Origin(201, 10)
    with pytest.raises(MeasurementError):
        live.check((replace(raised, sources=(CellSource(1, 1, 50),)),))
    finer = Live([TABLE, FINE, ROUGH, replace(second, alpha_nano=60)])
    from_second = PlannedRow(FINE.row, FINE.key, 80, G, 1, 60, TableCell(3, 1))
    with pytest.raises(MeasurementError):
        finer.check((from_second,))


def test_a_cell_is_paired_with_the_first_measurement_of_its_row_alone() -> None:
    again = row_of(BY_A.row(2), 3, 55, 130)
    live = Live([*LIVE, again])
    assert live.origins_of_cells(RAISED)[2] == Origin(112, 50)
    with pytest.raises(MeasurementError):
        live.check((replace(RAISED, sources=(CellSource(2, 3, 55),)),))
    with pytest.raises(MeasurementError):
        live.check((replace(FROM_CELL, refines=None),))
    rough = row_of(BY_A.row(2), 3, 10, 130)
    raised = PlannedRow.refining(rough, alpha_nano=80)
    assert Live([*LIVE, rough]).origin_of_row(raised) == Origin(130, 10)


def test_nothing_is_refined_twice_in_one_plan() -> None:
    with pytest.raises(MeasurementError):
        Live(LIVE).check((FROM_CELL, PlannedRow.refining(ROUGH, alpha_nano=90)))


def test_two_new_tables_of_one_plan_do_not_share_a_row() -> None:
    row = row_of(BY_A.row(2), 0, 50, 1)
    first = PlannedTable(BY_A, 60, G, sources=(CellSource(2, 0, 50),))
    second = PlannedTable(COARSE, 60, G, sources=(CellSource(1, 0, 50),))
    Live([row]).check((first, replace(second, sources=())))
    with pytest.raises(MeasurementError):
        Live([row]).check((first, second))


def test_a_table_may_name_a_row_of_its_own_plan() -> None:
    """Rows are drawn first: with the alpha that the row had, or the one that it gets."""
    raised = PlannedRow.refining(FINE, alpha_nano=80)
    for alpha in (50, 80):
        plan = (raised, replace(RAISED, sources=(CellSource(2, 1, alpha),)))
        Live(LIVE).check(plan)
    fresh = PlannedRow(BOTH.row(0), primitive(BOTH.row(0)).key, 70, G)
    Live(LIVE).check((fresh, PlannedTable(BOTH, 60, G, sources=(CellSource(0, 3, 70),))))


def test_a_draw_that_would_cost_more_than_its_charge_is_refused() -> None:
    """Whatever was checked before: the last word is at the draw."""
    with pytest.raises(MeasurementError):
        Live(LIVE).origins_of_cells(replace(RAISED, sources=(CellSource(1, 2, 50),)))
    with pytest.raises(MeasurementError):
        Live(LIVE).origin_of_row(replace(FROM_CELL, old_alpha_nano=31))
