"""A product partition: its cells, their rows, and the way back."""

from __future__ import annotations

import json
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import QueryError
from qserver.query.class_grid import AxisClasses, ProductPartition, product_partition
from qserver.query.linear_query import linear_query, total_query
from qserver.query.weights import Weights, indicator


@st.composite
def partitions(draw: st.DrawFn) -> ProductPartition:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    labels = {
        axis: draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
        for axis, size in enumerate(sizes)
        if draw(st.booleans())
    }
    return product_partition(sizes, labels)


@given(partitions())
def test_the_rows_of_the_cells_add_up_to_the_total_and_share_no_value(
    partition: ProductPartition,
) -> None:
    rows = [partition.row(cell) for cell in range(partition.n_cells)]
    for values in product(*map(range, partition.sizes)):
        assert sum(row.value_at(values) for row in rows) == 1


@given(partitions())
def test_a_row_leads_back_to_its_cell(partition: ProductPartition) -> None:
    cells = range(partition.n_cells)
    assert [partition.cell_of(partition.row(cell)) for cell in cells] == list(cells)


@pytest.mark.parametrize("labels", [x for x in product((-1, 0, 1), repeat=4) if set(x) - {-1}])
def test_a_cell_is_found_only_by_all_of_its_values(labels: tuple[int, ...]) -> None:
    """Also where a cell has several runs, and where values are of none."""
    partition = product_partition((4,), {0: labels})
    of_cells = {tuple(one == label for one in labels) for label in (0, 1)}
    for is_inside in product((False, True), repeat=4):
        if any(is_inside) and not all(is_inside):
            row = linear_query((4,), [(1, {0: indicator(4, np.flatnonzero(is_inside))})])
            cell = partition.cell_of(row)
            assert (cell is not None) == (is_inside in of_cells)
            assert cell is None or (partition.axes[0].dense == cell).tolist() == list(is_inside)


@given(partitions())
def test_cells_run_in_row_major_order_of_first_occurrence(partition: ProductPartition) -> None:
    places = [dict.fromkeys(axis.dense.tolist()) for axis in partition.axes]
    assert [list(place) for place in places] == [list(range(a.n)) for a in partition.axes]
    for cell, numbers in enumerate(product(*(range(a.n) for a in partition.axes))):
        inside = {
            axis.axis: indicator(partition.sizes[axis.axis], np.flatnonzero(axis.dense == number))
            for axis, number in zip(partition.axes, numbers, strict=True)
        }
        assert partition.row(cell) == linear_query(partition.sizes, [(1, inside)])


@given(partitions())
def test_a_document_gives_the_partition_back_through_json(partition: ProductPartition) -> None:
    document = json.loads(json.dumps(partition.to_document()))
    found = ProductPartition.from_document(partition.sizes, document)
    assert found == partition
    assert found.key == partition.key


def test_equal_partitions_have_one_key_however_their_parts_are_called() -> None:
    one = product_partition((4,), {0: [7, 7, 3, 3]})
    other = product_partition((4,), {0: [0, 0, 1, 1]})
    assert one == other
    assert one.key == other.key
    assert one.key != product_partition((4,), {0: [0, 1, 1, 0]}).key
    assert one.key != product_partition((4, 2), {0: [0, 0, 1, 1]}).key


def test_without_axes_the_only_cell_is_the_total() -> None:
    partition = product_partition((3, 2), {0: [5, 5, 5]})
    assert partition.axes == ()
    assert partition.n_cells == 1
    assert partition.row(0) == total_query((3, 2))
    assert partition.cell_of(total_query((3, 2))) == 0


@pytest.mark.parametrize(
    ("coefficient", "axes"),
    [
        (2, {0: indicator(4, [0, 1])}),
        (1, {0: indicator(4, [0])}),
        (1, {0: indicator(4, [1, 2])}),
        (1, {0: indicator(4, [0, 1]), 1: indicator(2, [0])}),
        (1, {1: indicator(2, [0])}),
        (1, {}),
    ],
)
def test_a_row_that_is_no_cell_is_not_found(coefficient: int, axes: dict[int, Weights]) -> None:
    partition = product_partition((4, 2), {0: [0, 0, 1, 1]})
    row = linear_query((4, 2), [(coefficient, axes)])
    assert partition.cell_of(row) is None


@pytest.mark.parametrize(
    "axes",
    [
        (AxisClasses(0, (4,), (0,), 1),),
        (AxisClasses(0, (2, 3), (0, 1), 2),),
        (AxisClasses(0, (2, 2, 4), (0, 1, 0), 2),),
        (AxisClasses(0, (2, 4), (1, 0), 2),),
        (AxisClasses(0, (2, 4), (0, 0), 1),),
        (AxisClasses(0, (2, 4), (0, 2), 2),),
        (AxisClasses(0, (2, 4), (0,), 2),),
        (AxisClasses(2, (2, 4), (0, 1), 2),),
        (AxisClasses(1, (1, 2), (0, 1), 2), AxisClasses(0, (2, 4), (0, 1), 2)),
        (AxisClasses(0, (2, 4), (0, 1), 2), AxisClasses(0, (2, 4), (0, 1), 2)),
    ],
)
def test_axes_that_are_no_partition_are_refused(axes: tuple[AxisClasses, ...]) -> None:
    with pytest.raises(QueryError):
        ProductPartition((4, 2), axes)


def test_a_table_of_too_many_cells_is_refused_before_it_is_made() -> None:
    sizes = (300, 300)
    labels = {axis: range(size) for axis, size in enumerate(sizes)}
    with pytest.raises(QueryError, match=r"at most 65536 cells, got 90000"):
        product_partition(sizes, {a: np.array(x) for a, x in labels.items()})
    assert prod(sizes) == 90_000


@pytest.mark.parametrize("cell", [-1, 2])
def test_a_cell_that_is_not_there_has_no_row(cell: int) -> None:
    with pytest.raises(QueryError, match="`cell`"):
        product_partition((4,), {0: [0, 0, 1, 1]}).row(cell)
