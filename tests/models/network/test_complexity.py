"""How many numbers a model tells, and how many its families' tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import log, prod

import numpy as np
import pytest

from qserver.answering.models.kinds.network_kind import MAX_SUBSETS
from qserver.models.network.learning.allocations import (
    MAX_CHOICE_SIZE,
    choose_tables,
    maximal_families,
    most_numbers_chosen,
)
from qserver.models.network.learning.estimation import Scope
from qserver.models.network.structure import (
    IndependentNumbers,
    Structure,
    complexity,
    table_complexity,
)
from qserver.query.domain import MAX_ATTRIBUTES
from tests.models.structures import sized


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
    found = table_complexity(structure.sizes, scopes)
    assert found.is_exact
    return found.count


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


def test_of_very_many_interactions_cells_are_counted_less_what_is_shared() -> None:
    """Never fewer than the interactions: 2^18 - 1 for one table of 18 binary variables."""
    sizes = (2,) * 19
    assert table_complexity(sizes, [range(18)]) == IndependentNumbers(2**18 - 1, is_exact=False)
    assert table_complexity(sizes, [range(18), range(17)]).count == 2**18 - 1
    assert table_complexity(sizes, [range(18), range(1, 19)]).count == 2**18 - 1 + 2**17


@pytest.mark.parametrize("seed", range(12))
def test_what_is_not_listed_is_bounded(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the rank of all cells and their number."""
    structure = random_structure(np.random.default_rng(seed), 6)
    scopes = [structure.family(i) for i in range(6)]
    monkeypatch.setattr("qserver.models.network.structure.MAX_INTERACTIONS", 0)
    found = table_complexity(structure.sizes, scopes)
    assert not found.is_exact
    cells = sum(prod(structure.sizes[i] for i in scope) - 1 for scope in scopes)
    assert span_of_tables(structure) <= found.count <= cells


def groupings(families: list[Scope]) -> Iterator[list[list[Scope]]]:
    """Every way to put each family into one group."""
    if not families:
        yield []
        return
    first, rest = families[0], families[1:]
    for found in groupings(rest):
        yield [[first], *found]
        for place, group in enumerate(found):
            yield [*found[:place], [first, *group], *found[place + 1 :]]


@pytest.mark.parametrize("most", [4, 8, 12, 24])
@pytest.mark.parametrize("seed", range(6))
def test_no_choice_of_tables_tells_more_than_its_bound(
    seed: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All groupings of the maximal families whose merged tables have few enough cells."""
    monkeypatch.setattr("qserver.models.network.learning.allocations.MAX_MERGED_CELLS", most)
    structure = random_structure(np.random.default_rng(seed), 6)
    sizes, numbers = structure.sizes, []
    for groups in groupings(list(maximal_families(structure))):
        tables = [tuple({i for family in group for i in family}) for group in groups]
        pairs = zip(tables, groups, strict=True)
        if all(len(group) == 1 or prod(sizes[i] for i in t) <= most for t, group in pairs):
            numbers.append(table_complexity(sizes, tables).count)
    chosen = [t.scope for t in choose_tables(structure, epsilon=1.0)]
    assert table_complexity(sizes, chosen).count in numbers
    assert max(numbers) <= most_numbers_chosen(structure)


def test_the_bound_on_a_choice_is_the_families_cells_where_none_can_merge() -> None:
    """Two families of 8,192 cells, above what a merged table may have."""
    wide = sized({"a": 2, "b": 4096, "c": 4096}, [("a", "b"), ("a", "c")])
    assert most_numbers_chosen(wide) == 2 * (2 * 4096 - 1)
    assert most_numbers_chosen(sized({"a": 3}, [])) == 2


def test_the_tables_of_every_network_that_a_server_learns_are_chosen() -> None:
    """Each of the subsets' sums is greatest, 3^k given, where all families are of one size."""
    n = MAX_ATTRIBUTES
    each = (MAX_SUBSETS / n) ** (log(2) / log(3))
    assert n * n * each < MAX_CHOICE_SIZE


def test_a_wider_table_tells_more_than_the_two_it_holds() -> None:
    sizes = (2, 3, 4)
    assert table_complexity(sizes, [(0, 1), (1, 2)]).count == 1 + 2 + 3 + 2 + 6
    assert table_complexity(sizes, [(0, 1, 2)]).count == 2 * 3 * 4 - 1
