"""How many numbers a model tells, and how many its families' tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from models.structures import sized

from qserver.models.complexity import complexity, table_complexity
from qserver.models.structure import Structure


def collider() -> Structure:
    """Two causes that the model holds independent, of 2 and 3 values, and an effect of 4."""
    return sized({"a": 2, "b": 3, "c": 4}, [("a", "c"), ("b", "c")])


def random_structure(rng: np.random.Generator, n: int) -> Structure:
    sizes = {f"x{i}": int(s) for i, s in enumerate(rng.integers(1, 4, n))}
    order = rng.permutation(n)
    edges = []
    for place, child in enumerate(order):
        before = order[:place]
        edges += [(f"x{p}", f"x{child}") for p in before[rng.random(place) < 0.4][:3]]
    return sized(sizes, edges)


def family_tables(structure: Structure) -> int:
    scopes = [structure.family(i) for i in range(len(structure.variables))]
    return table_complexity(structure.sizes, scopes)


def span_of_tables(structure: Structure) -> int:
    """Rank of all cells of all family tables as functions of a record, without the constant."""
    records = np.array(list(product(*map(range, structure.sizes))))
    columns = [np.ones(len(records))]
    for i, parents in enumerate(structure.parents):
        axes = [i, *parents]
        cells = product(*(range(structure.sizes[a]) for a in axes))
        columns.extend(np.all(records[:, axes] == cell, axis=1).astype(float) for cell in cells)
    return int(np.linalg.matrix_rank(np.array(columns))) - 1


def test_complexity_counts_the_free_parameters_of_each_row() -> None:
    rows = {"a": 1, "b": 1, "c": 2 * 3}
    free = {"a": 1, "b": 2, "c": 3}
    assert complexity(collider()) == sum(rows[x] * free[x] for x in rows) == 21


def test_the_tables_of_a_collider_also_tell_how_its_causes_meet() -> None:
    """The table of (a, b, c) has 2 * 3 * 4 - 1 free cells, two more than the model."""
    assert family_tables(collider()) == 2 * 3 * 4 - 1


@pytest.mark.parametrize("seed", range(8))
def test_the_tables_tell_as_many_numbers_as_their_span_has_dimensions(seed: int) -> None:
    structure = random_structure(np.random.default_rng(seed), 6)
    assert family_tables(structure) == span_of_tables(structure)
    assert family_tables(structure) >= complexity(structure)


def test_a_tree_tells_no_more_by_its_tables_than_by_its_parameters() -> None:
    tree = sized({"a": 2, "b": 3, "c": 4}, [("a", "b"), ("a", "c")])
    assert family_tables(tree) == complexity(tree)


def test_values_of_one_label_tell_nothing() -> None:
    alone = sized({"a": 2, "one": 1}, [("one", "a")])
    assert complexity(alone) == family_tables(alone) == 1


def test_of_very_many_interactions_the_cells_are_counted_instead() -> None:
    """Never fewer than the interactions: 2^18 - 1 for one table of 18 binary variables."""
    sizes = (2,) * 18
    assert table_complexity(sizes, [range(18)]) == 2**18 - 1
    twice = table_complexity(sizes, [range(18), range(17)])
    assert 2**18 - 1 <= twice == 2**18 + 2**17 - 2


def test_a_wider_table_tells_more_than_the_two_it_holds() -> None:
    sizes = (2, 3, 4)
    assert table_complexity(sizes, [(0, 1), (1, 2)]) == 1 + 2 + 3 + 2 + 6
    assert table_complexity(sizes, [(0, 1, 2)]) == 2 * 3 * 4 - 1
