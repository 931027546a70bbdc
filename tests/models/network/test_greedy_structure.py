"""Greedy structures against a literal search, and correlations against Pearson's."""

from __future__ import annotations

from itertools import permutations
from math import prod, sqrt

import numpy as np
import pytest

from qserver.errors import InputError
from qserver.models.network.structure import (
    Structure,
    complexity,
    correlations,
    cramers_v,
    greedy_structure,
    score,
    total_score,
)
from tests.models.structures import labels_of, sized

SIZES = dict.fromkeys("abcdef", 2)
LABELS = labels_of(SIZES)


def random_correlations(seed: int) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).random((6, 6)), 1)
    return upper + upper.T + np.eye(6)


def literal_score(child: int, parents: list[int], corr: np.ndarray) -> float:
    """Equation 3, pair by pair."""
    if not parents:
        return 0.0
    among = sum(corr[j, k] for j, k in permutations(parents, 2))
    return float(sum(corr[child, j] for j in parents) / sqrt(len(parents) + among))


def literal_greedy(corr: np.ndarray, most: int) -> set[tuple[int, int]]:
    """Try every arrow in every step, refuse cycles by building the graph."""
    n, arrows = len(corr), set()
    while True:
        best: tuple[float, tuple[int, int] | None] = (0.0, None)
        for child, parent in permutations(range(n), 2):
            mine = [p for p, c in arrows if c == child]
            if parent in mine or len(mine) >= most:
                continue
            try:
                built(arrows | {(parent, child)})
            except InputError:
                continue
            gain = literal_score(child, [*mine, parent], corr) - literal_score(child, mine, corr)
            if gain > best[0] + 1e-12:
                best = (gain, (parent, child))
        if best[1] is None:
            return arrows
        arrows.add(best[1])


def built(arrows: set[tuple[int, int]]) -> Structure:
    names = list(SIZES)
    return sized(SIZES, [(names[p], names[c]) for p, c in arrows])


def parents_of(structure: Structure) -> list[set[int]]:
    return list(map(set, structure.parents))


@pytest.mark.parametrize("most", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_adds_the_best_arrow_each_time(seed: int, most: int) -> None:
    """Of the two directions of an arrow, equally good at first, both take the first child."""
    corr = random_correlations(seed)
    found = greedy_structure(LABELS, corr, max_parents=most)
    expected = built(literal_greedy(corr, most))
    assert max(len(ps) for ps in found.parents) <= most
    assert parents_of(found) == parents_of(expected)


@pytest.mark.parametrize("seed", range(6))
def test_an_arrow_that_passes_a_bound_is_left_out_and_others_are_tried(seed: int) -> None:
    """The literal search, with every structure's parameters and cells counted."""
    corr, rng = random_correlations(seed), np.random.default_rng(seed)
    sizes = dict(zip("abcdef", map(int, rng.integers(2, 6, 6)), strict=True))
    names = list(sizes)
    bare = sum(size - 1 for size in sizes.values())
    for most, cells in ((bare + 10, 30), (bare + 40, 1000), (bare, 1000)):
        arrows: list[tuple[str, str]] = []
        while True:
            gains = {}
            for p, c in permutations(range(6), 2):
                mine = [names.index(q) for q, d in arrows if d == names[c]]
                try:
                    grown = sized(sizes, [*arrows, (names[p], names[c])])
                except InputError:
                    continue
                small = prod(grown.family_shape(c)) <= cells
                if len(mine) < 3 and p not in mine and complexity(grown) <= most and small:
                    now = literal_score(c, mine, corr)
                    gains[p, c] = literal_score(c, [*mine, p], corr) - now
            best = max(
                gains,
                key=lambda arrow: (round(gains[arrow], 12), -arrow[1], -arrow[0]),
                default=None,
            )
            if best is None or gains[best] <= 0:
                break
            arrows.append((names[best[0]], names[best[1]]))
        found = greedy_structure(
            labels_of(sizes), corr, max_parents=3, max_complexity=most, max_cells=cells
        )
        assert parents_of(found) == parents_of(sized(sizes, arrows))
        assert complexity(found) <= most
        assert total_score(found, corr) == pytest.approx(
            sum(literal_score(i, list(ps), corr) for i, ps in enumerate(found.parents))
        )


def test_the_score_is_equation_3_and_nothing_for_no_parents() -> None:
    corr = random_correlations(9)
    assert score(0, (), corr) == 0.0
    assert score(0, (2, 4, 5), corr) == pytest.approx(literal_score(0, [2, 4, 5], corr))


def test_a_gain_below_the_least_adds_no_arrow() -> None:
    corr = np.array([[1, 0.5, 0.1], [0.5, 1, 0.1], [0.1, 0.1, 1]])
    found = greedy_structure(labels_of(dict.fromkeys("abc", 2)), corr, max_parents=2, min_gain=0.2)
    assert list(map(set, found.edges)) == [{"a", "b"}]


def test_cramers_v_of_binary_attributes_is_pearson_s_r_without_its_sign() -> None:
    rng = np.random.default_rng(3)
    first = rng.integers(0, 2, 400)
    second = np.where(rng.random(400) < 0.3, 1 - first, first)
    records = np.column_stack([first, second, 1 - second])

    def table(one: str, other: str) -> np.ndarray:
        columns = records[:, int(one)], records[:, int(other)]
        return np.array(
            [[np.sum((columns[0] == a) & (columns[1] == b)) for b in (0, 1)] for a in (0, 1)]
        )

    found = correlations(("0", "1", "2"), table)
    pearson = np.corrcoef(records.T)
    np.testing.assert_allclose(found, np.abs(pearson), atol=1e-12)


def test_a_constant_attribute_correlates_with_nothing_and_noise_below_zero_counts_as_none() -> None:
    assert cramers_v(np.array([[3.0, 4.0], [0.0, 0.0]])) == 0.0
    assert cramers_v(np.array([[5.0, -2.0], [-1.0, 5.0]])) == pytest.approx(1.0)
    assert cramers_v(np.zeros((2, 2))) == 0.0


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"corr": np.array([[1.0, 0.5], [0.4, 1.0]])}, "symmetric"),
        ({"corr": -np.ones((2, 2))}, ">= 0"),
        ({"max_parents": 17}, "max_parents"),
        ({"min_gain": -1.0}, "min_gain"),
        ({"min_gain": float("nan")}, "min_gain"),
    ],
)
def test_values_out_of_range_are_refused(change: dict[str, object], match: str) -> None:
    arguments = {"corr": np.ones((2, 2)), "max_parents": 1, "min_gain": 0.0} | change
    with pytest.raises(InputError, match=match):
        greedy_structure(labels_of({"a": 2, "b": 2}), **arguments)  # type: ignore[arg-type]
