"""Cells of least cost against all cells written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import CapacityError
from qserver.models.marginals.fit.nearest_table import CheapestCells

SIZES = (2, 3, 2, 4, 1)
scopes = st.lists(
    st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True).map(
        lambda s: tuple(sorted(s))
    ),
    min_size=1,
    max_size=6,
)


def cost_by_definition(found: CheapestCells, costs: np.ndarray, cell: tuple[int, ...]) -> float:
    layout = found.layout
    return sum(
        float(layout.table(costs, k)[tuple(cell[a] for a in scope)])
        for k, scope in enumerate(layout.scopes)
    )


@given(scopes, st.integers(0, 2**32 - 1))
def test_the_first_cell_is_the_cheapest_and_costs_are_those_of_the_cells(
    chosen: list[tuple[int, ...]], seed: int
) -> None:
    """Scopes that share, chain, and lie apart: one tree or several."""
    found = CheapestCells(SIZES, chosen, max_cells=1000)
    costs = np.random.default_rng(seed).normal(size=found.layout.n_cells)
    cells = found.find(costs, n=5)
    every = product(*(range(n) for n in SIZES))
    least = min(cost_by_definition(found, costs, cell) for cell in every)
    np.testing.assert_allclose(cells.costs[0], least, rtol=0, atol=1e-12)
    again = [cost_by_definition(found, costs, tuple(map(int, code))) for code in cells.codes]
    np.testing.assert_allclose(cells.costs, again, rtol=0, atol=1e-12)
    assert (np.diff(cells.costs) >= 0).all()


def test_several_trees_give_as_many_cells_each() -> None:
    found = CheapestCells((4, 4), [(0,), (1,)], max_cells=100)
    cells = found.find(np.arange(8.0), n=3)
    assert len(cells.codes) == 6
    assert cells.codes[0].tolist() == [0, 0]
    assert cells.costs[0] == 4.0


def test_too_large_a_tree_is_refused_with_its_bound() -> None:
    with pytest.raises(CapacityError, match=r"100 cells; 99 are the most"):
        CheapestCells((10, 10), [(0, 1)], max_cells=99)
