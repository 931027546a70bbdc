"""One row's loss as small tables, against the row's cell values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import pytest

from qserver.ledger.loss import Shape, cell_shapes, pair_shapes
from qserver.ledger.loss_tables import LossTable
from qserver.query.linear_query import linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import interval
from tests.ledger.losses_by_definition import limits, random_row
from tests.query.small_queries import cells

SIZES = (3, 1, 4, 3)
N_ROWS = 30


def entry(table: LossTable, cell: Sequence[int]) -> int:
    """The loss of one cell, given as an index per axis of the table's domain."""
    index = tuple(
        int(p.of_values[cell[a]])
        for a, p in zip(table.layout.axes, table.layout.partitions, strict=True)
    )
    return int(table.values[index])


def value(shapes: Sequence[Shape], cell: Sequence[int]) -> Fraction:
    total = Fraction(0)
    for shape in shapes:
        numerators = LossTable(shape.layout, shape.numerators)  # type: ignore[arg-type]
        total += Fraction(entry(numerators, cell), shape.denominator)
    return total


@pytest.mark.parametrize("seed", range(N_ROWS))
def test_a_cell_shape_is_the_absolute_value_of_the_row(seed: int) -> None:
    row = random_row(random.Random(seed), SIZES)
    shapes = cell_shapes(row)
    assert all(shape.exact for shape in shapes)
    for cell in cells(SIZES):
        assert value(shapes, cell) == abs(row.value_at(cell))


@pytest.mark.parametrize("seed", range(N_ROWS))
def test_a_pair_shape_is_the_absolute_difference_of_the_row(seed: int) -> None:
    row = random_row(random.Random(seed), SIZES)
    for one in cells(SIZES):
        for other in list(cells(SIZES))[::5]:
            difference = abs(row.value_at(one) - row.value_at(other))
            assert value(pair_shapes(row), (*one, *other)) == difference


@pytest.mark.parametrize("row_grid", [1, 6, 20])
@pytest.mark.parametrize("seed", range(N_ROWS))
def test_shapes_of_rows_too_large_to_tabulate_are_upper_bounds(seed: int, row_grid: int) -> None:
    """Sound cell by cell, and for a pair never more than the row's own bounds differ."""
    row = random_row(random.Random(seed), SIZES)
    with limits(row_grid=row_grid):
        of_cell, of_pair = cell_shapes(row), pair_shapes(row)
    for one in cells(SIZES):
        assert value(of_cell, one) >= abs(row.value_at(one))
        for other in list(cells(SIZES))[::7]:
            difference = abs(row.value_at(one) - row.value_at(other))
            assert value(of_pair, (*one, *other)) >= difference


def test_a_row_without_negative_terms_is_exact_term_by_term() -> None:
    """However large the grid of all its axes is: here 10^9 cells."""
    sizes = (1000, 1000, 1000)
    terms = [(1, {a: interval(1000, 100 * a, 100 * a + 1)}) for a in range(3)]
    ramps = linear_query(sizes, [*terms, (2, {0: interval(1000, 5, 9)})])
    row = primitive(ramps).row
    with limits(row_grid=6):
        shapes = cell_shapes(row)
    assert len(shapes) == 4
    assert all(shape.exact for shape in shapes)
    for cell in [(0, 100, 200), (5, 100, 0), (5, 0, 0), (0, 0, 200), (9, 9, 9)]:
        assert value(shapes, cell) == row.value_at(cell)


@pytest.mark.parametrize("units", [1, 7, 12345, 2**40 + 1])
def test_losses_are_rounded_up_entry_by_entry(units: int) -> None:
    row = random_row(random.Random(8), SIZES)
    (shape,) = cell_shapes(row)
    for cell in cells(SIZES):
        assert entry(shape.loss(units), cell) == ceil(abs(row.value_at(cell)) * units)


def test_weights_near_the_limits_of_64_bits_do_not_wrap_around() -> None:
    """Denominators of 2^60: products with the units pass 2^63 before the division."""
    tiny = Fraction(1, 2**60 - 1)
    row = linear_query((4,), [(1, {0: interval(4, 0, 2)}), (-tiny, {0: interval(4, 1, 4)})])
    (shape,) = cell_shapes(row)
    (pair,) = pair_shapes(row)
    for cell in range(4):
        exact = abs(row.value_at((cell,)))
        assert entry(shape.loss(10**12), (cell,)) == ceil(exact * 10**12)
        difference = abs(row.value_at((cell,)) - row.value_at((3,)))
        assert entry(pair.loss(10**12), (cell, 3)) == ceil(difference * 10**12)
