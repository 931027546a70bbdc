"""What may bear on a question: never less than what cells in common link to it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.inference.reach import Reach
from qserver.query.class_grid import product_partition
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.weights import indicator
from qserver.records.history import AnyMeasurement, TableMeasurement
from tests.inference.histories import measured
from tests.query.small_queries import cells
from tests.sweeps import examples

SIZES = (4, 3)
STEP = Fraction(1, 1024)
CELLS = list(cells(SIZES))
subsets = st.tuples(
    st.sets(st.integers(0, 3), min_size=1), st.none() | st.sets(st.integers(0, 2), min_size=1)
)
parts = st.tuples(
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.none() | st.lists(st.integers(0, 1), min_size=3, max_size=3),
)


def row_of(subset: tuple[set[int], set[int] | None]) -> LinearQuery:
    axes = {0: indicator(4, sorted(subset[0]))}
    if subset[1] is not None:
        axes[1] = indicator(3, sorted(subset[1]))
    return linear_query(SIZES, [(1, axes)])


def table_of(number: int, labels: tuple[list[int], list[int] | None]) -> TableMeasurement:
    by_axis = {0: labels[0], **({} if labels[1] is None else {1: labels[1]})}
    partition = product_partition(SIZES, {a: np.asarray(of) for a, of in by_axis.items()})
    return TableMeasurement(number, partition, 10**8, STEP, (0,) * partition.n_cells)


def rows_of(one: AnyMeasurement) -> list[LinearQuery]:
    if isinstance(one, TableMeasurement):
        return [one.partition.row(i) for i in range(one.partition.n_cells)]
    return [one.row]


def linked(query: LinearQuery, history: list[AnyMeasurement]) -> set[int]:
    """Ids of those with a row that a chain of cells in common leads to, cell by cell."""
    supports = [
        (m.id, {c for c in CELLS if row.value_at(c) != 0}) for m in history for row in rows_of(m)
    ]
    found, met = {c for c in CELLS if query.value_at(c) != 0}, set[int]()
    while True:
        reached = [(i, support) for i, support in supports if support & found]
        grown = found.union(*(support for _, support in reached))
        met = {i for i, _ in reached}
        if grown == found:
            return met
        found = grown


@given(subsets, st.lists(subsets, max_size=5), st.lists(parts, max_size=2))
@settings(max_examples=examples(200))
def test_no_measurement_that_is_linked_is_left_out(
    asked: tuple[set[int], set[int] | None],
    subsets_of_rows: list[tuple[set[int], set[int] | None]],
    labels: list[tuple[list[int], list[int] | None]],
) -> None:
    history: list[AnyMeasurement] = [
        measured(i, row_of(subset)) for i, subset in enumerate(subsets_of_rows)
    ]
    history += [table_of(len(history) + i, of) for i, of in enumerate(labels)]
    query = row_of(asked)
    found = [m.id for m in Reach(history).of([query])]
    assert found == sorted(found)
    assert linked(query, history) <= set(found)


def test_rows_of_other_cells_are_left_out() -> None:
    """A table of single cells links none of them."""
    table = table_of(0, ([0, 1, 2, 2], None))
    here, there = row_of(({0}, {1})), row_of(({1}, {1}))
    rows = [measured(1, here), measured(2, there)]
    assert [m.id for m in Reach([table, *rows]).of([here])] == [0, 1]
    both = measured(3, row_of(({0, 1}, None)))
    assert [m.id for m in Reach([table, *rows, both]).of([here])] == [0, 1, 2, 3]


def test_a_table_of_some_values_is_met_there_alone() -> None:
    partition = product_partition(SIZES, {0: np.array([0, 0, -1, -1])})
    piece = TableMeasurement(0, partition, 10**8, STEP, (0,) * partition.n_cells)
    assert Reach([piece]).of([row_of(({1}, {1}))]) == [piece]
    assert Reach([piece]).of([row_of(({2}, {1}))]) == []


def test_nothing_is_in_reach_of_nothing() -> None:
    assert Reach([]).of([row_of(({1}, None))]) == []
