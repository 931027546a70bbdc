"""What a local search finds, against every cell of small domains."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from qserver.ledger.local_search import SearchedSum
from qserver.ledger.loss import cell_shapes
from qserver.ledger.loss_tables import SumTable, total
from qserver.query.linear_query import linear_query
from qserver.query.weights import indicator
from tests.ledger.losses_by_definition import random_row

SIZES = (4, 3, 5, 4)


def tables_of(seed: int, n: int, sizes: tuple[int, ...] = SIZES) -> list[SumTable]:
    rng = random.Random(seed)
    shapes = [shape for _ in range(n) for shape in cell_shapes(random_row(rng, sizes))]
    losses = [shape.loss(rng.randrange(1, 10**6)) for shape in shapes]
    return [SumTable(loss.layout, loss.values) for loss in losses]


@pytest.mark.parametrize("n", [1, 2, 5, 12])
@pytest.mark.parametrize("seed", range(10))
def test_the_greatest_sum_of_a_small_domain_is_found(seed: int, n: int) -> None:
    tables = tables_of(seed, n)
    assert SearchedSum.of(tables).top() == total(tables).top


@pytest.mark.parametrize("seed", range(10))
def test_more_tables_are_found_from_the_cells_without_them(seed: int) -> None:
    """Never above the greatest sum, and never below that of the tables before."""
    tables, found = tables_of(seed, 12), list[bool]()
    for n in range(1, len(tables)):
        searched, truth = SearchedSum.of(tables[:n]), total(tables[: n + 1]).top
        with_one = searched.with_tables([tables[n]]).top()
        assert searched.top() <= with_one <= truth
        found.append(with_one == truth)
    assert sum(found) >= 0.9 * len(found)


@pytest.mark.parametrize("seed", range(6))
def test_each_value_of_an_axis_has_its_own_greatest_sum(seed: int) -> None:
    *tables, more = tables_of(seed, 6)
    along = 2
    every = SearchedSum.of([_each_value(along), *tables], along=along)
    for known, sums in (([], every.tops()), ([more], every.with_tables([more]).tops())):
        whole = total([*tables, *known, _each_value(along)])
        axes = tuple(i for i, axis in enumerate(whole.layout.axes) if axis != along)
        truth = whole.values.max(axis=axes)
        of_values = whole.layout.by_axis[along].of_values
        assert np.all(sums <= truth[of_values])
        assert np.count_nonzero(sums == truth[of_values]) >= len(sums) - 1


def _each_value(axis: int) -> SumTable:
    """Nothing, on a class for each value."""
    rows = [
        linear_query(SIZES, [(1, {axis: indicator(SIZES[axis], [v])})]) for v in range(SIZES[axis])
    ]
    losses = [shape.loss(1) for row in rows for shape in cell_shapes(row)]
    whole = total([SumTable(loss.layout, loss.values) for loss in losses])
    return SumTable(whole.layout, np.zeros_like(whole.values))


def test_counts_of_single_cells_are_found_though_no_step_leads_there() -> None:
    """Of 1,728,000 cells each of these counts one; two of them count the same."""
    sizes, rng = (120, 120, 120), random.Random(3)
    cells = [tuple(rng.randrange(n) for n in sizes) for _ in range(20)]
    rows = [
        linear_query(sizes, [(1, {a: indicator(sizes[a], [v]) for a, v in enumerate(cell)})])
        for cell in cells
    ]
    losses = [cell_shapes(row)[0].loss(100 + i) for i, row in enumerate(rows)]
    tables = [SumTable(loss.layout, loss.values) for loss in losses]
    assert SearchedSum.of(tables).top() == 119
    again = SumTable(losses[0].layout, losses[0].values)
    assert SearchedSum.of(tables).with_tables([again]).top() == 200


def test_what_is_found_does_not_depend_on_how_losses_are_kept_in_tables() -> None:
    """One table a row, or one of all: the search begins and goes on at the same cells."""
    for seed in range(6):
        tables = tables_of(seed, 10)
        whole = SearchedSum.of([total(tables)])
        assert SearchedSum.of(tables).top() == whole.top() == total(tables).top


def test_a_sum_of_nothing_is_nothing() -> None:
    nothing = total([])
    assert SearchedSum.of([nothing]).top() == 0
    (one,) = tables_of(1, 1)[:1]
    assert SearchedSum.of([nothing]).with_tables([one]).top() == one.top


def test_the_greatest_sum_by_definition() -> None:
    """The tables' sum itself, cell by cell, not by the table of their sum."""
    rng = random.Random(11)
    rows = [random_row(rng, SIZES) for _ in range(6)]
    units = [rng.randrange(1, 100) * 2**20 for _ in rows]
    shapes = [(s, u) for row, u in zip(rows, units, strict=True) for s in cell_shapes(row)]
    tables = [SumTable(x.layout, x.values) for x in (s.loss(u) for s, u in shapes)]
    truth = max(
        sum(abs(row.value_at(cell)) * u for row, u in zip(rows, units, strict=True))
        for cell in product(*map(range, SIZES))
    )
    assert truth <= SearchedSum.of(tables).top() <= truth + len(rows)
