"""Overlapping noisy tables: the closed form against dense least squares, and what is measured."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from qserver.errors import NetworkError
from qserver.models.network.learning.allocations import (
    choose_tables,
    family_weights,
    maximal_families,
)
from qserver.models.network.learning.estimation import (
    CombinedTables,
    NoisyTable,
    Scope,
    TablePrice,
    n_cells,
)
from qserver.models.network.structure import Structure, Variable
from tests.benchmarks.published_networks import NAMES, published

SIZES = (2, 3, 2, 4)
TABLES: tuple[tuple[Scope, float], ...] = (
    ((0, 1), 2.0),
    ((1, 2), 0.5),
    ((0, 1, 3), 1.0),
    ((2,), 3.0),
    ((0, 2, 3), 4.0),
)


def _matrix(scope: Scope) -> np.ndarray:
    """Rows of the marginal over `scope`, on the cells of the whole domain."""
    cells = list(product(*map(range, SIZES)))
    rows = list(product(*(range(SIZES[i]) for i in scope)))
    return np.array([[float(tuple(c[i] for i in scope) == r) for c in cells] for r in rows])


def _tables(seed: int) -> tuple[NoisyTable, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        NoisyTable(scope, b, rng.normal(50, 20, size=[SIZES[i] for i in scope]))
        for scope, b in TABLES
    )


@pytest.mark.parametrize("scope", [(), (1,), (2,), (0, 3), (0, 1), (1, 2), (0, 1, 3), (2, 3)])
def test_marginals_are_those_of_dense_weighted_least_squares(scope: Scope) -> None:
    tables = _tables(3)
    design = np.vstack([_matrix(t.scope) / t.variance**0.5 for t in tables])
    seen = np.concatenate([t.values.ravel() / t.variance**0.5 for t in tables])
    inverse = np.linalg.pinv(design.T @ design, rcond=1e-10)
    wanted = _matrix(scope)
    combined = CombinedTables(SIZES, tables)
    expected = wanted @ inverse @ design.T @ seen
    np.testing.assert_allclose(combined.marginal(scope).ravel(), expected, rtol=1e-9, atol=1e-9)
    variances = np.diag(wanted @ inverse @ wanted.T)
    np.testing.assert_allclose(combined.variance(scope), variances, rtol=1e-9)


def test_differences_along_a_variable_have_the_variance_that_is_told() -> None:
    tables = _tables(4)
    design = np.vstack([_matrix(t.scope) / t.variance**0.5 for t in tables])
    inverse = np.linalg.pinv(design.T @ design, rcond=1e-10)
    wanted = _matrix((0, 1, 3))
    covariance = wanted @ inverse @ wanted.T
    difference = np.zeros(len(covariance))
    difference[0], difference[1] = 1, -1  # the last axis, variable 3
    expected = difference @ covariance @ difference / 2
    found = CombinedTables(SIZES, tables).variance_within((0, 1, 3), 3)
    assert found == pytest.approx(expected, rel=1e-9)


def test_what_no_table_holds_is_refused() -> None:
    combined = CombinedTables(SIZES, _tables(1)[:2])
    assert combined.holds((0, 1))
    assert not combined.holds((0, 2))
    with pytest.raises(NetworkError):
        combined.marginal((0, 2))


def test_noisy_tables_are_checked() -> None:
    values = np.zeros((2, 3))
    for scope, scale in (
        ((1, 0), 1.0),
        ((0, 0), 1.0),
        ((0, 1), 0.0),
        ((0, 1), float("inf")),
        ((0,), 1.0),
    ):
        with pytest.raises(NetworkError):
            NoisyTable(scope, scale, values)


def test_maximal_families_of_alarm_and_sachs_are_twenty_five_and_six() -> None:
    counts = {name: len(maximal_families(published(name).structure)) for name in NAMES}
    assert (counts["alarm"], counts["sachs"]) == (25, 6)


def _cost(structure: Structure, tables: tuple[TablePrice, ...]) -> float:
    """The objective through CombinedTables, a route of its own."""
    sizes = structure.sizes
    blank = tuple(
        NoisyTable(t.scope, 1 / t.epsilon, np.zeros([sizes[i] for i in t.scope])) for t in tables
    )
    combined = CombinedTables(sizes, blank)
    weights = family_weights(structure)
    return sum(w * combined.variance(scope) ** 0.5 for scope, w in weights.items())


@pytest.mark.parametrize("name", NAMES)
def test_chosen_tables_cost_the_budget_and_hold_every_family(name: str) -> None:
    structure = published(name).structure
    chosen = choose_tables(structure, epsilon=1.5)
    assert sum(t.epsilon for t in chosen) == pytest.approx(1.5, rel=1e-9)
    for i in range(len(structure.variables)):
        assert any(set(structure.family(i)) <= set(t.scope) for t in chosen)


@pytest.mark.parametrize("name", ["asia", "sachs", "child"])
def test_moving_budget_between_chosen_tables_does_not_pay(name: str) -> None:
    structure = published(name).structure
    chosen = choose_tables(structure, epsilon=1.0)
    least = _cost(structure, chosen)
    for k in range(len(chosen) - 1):
        for sign in (1, -1):
            moved = list(chosen)
            step = sign * 0.2 * min(chosen[k].epsilon, chosen[k + 1].epsilon)
            moved[k] = TablePrice(chosen[k].scope, chosen[k].epsilon + step)
            moved[k + 1] = TablePrice(chosen[k + 1].scope, chosen[k + 1].epsilon - step)
            assert _cost(structure, tuple(moved)) > least


@pytest.mark.parametrize("name", NAMES)
def test_chosen_tables_cost_less_than_each_family_alone(name: str) -> None:
    structure = published(name).structure
    scopes = maximal_families(structure)
    equal = tuple(TablePrice(s, 1 / len(scopes)) for s in scopes)
    assert _cost(structure, choose_tables(structure, epsilon=1.0)) < 0.95 * _cost(structure, equal)


def test_a_released_table_is_evidence_and_is_raised_for_the_difference() -> None:
    structure = published("asia").structure
    first = choose_tables(structure, epsilon=1.0)
    second = choose_tables(structure, epsilon=1.0, known=first)
    assert [t.scope for t in second] == [t.scope for t in first]
    together = tuple(
        TablePrice(a.scope, a.epsilon + b.epsilon) for a, b in zip(first, second, strict=True)
    )
    assert _cost(structure, together) == pytest.approx(_cost(structure, first) / 2, rel=1e-6)


def test_a_table_that_is_known_well_takes_little_more() -> None:
    structure = published("asia").structure
    plain = choose_tables(structure, epsilon=1.0)
    exact = TablePrice(plain[0].scope, 50.0)
    rest = choose_tables(structure, epsilon=1.0, known=[exact])
    again = sum(t.epsilon for t in rest if set(t.scope) <= set(exact.scope))
    assert again < 0.05


def test_two_small_families_are_measured_as_one_table() -> None:
    """Twice the cells at the sum of both prices: half the variance."""
    labels = ("0", "1")
    structure = Structure(
        (Variable("a", labels), Variable("b", labels, ("a",)), Variable("c", labels, ("a",)))
    )
    chosen = choose_tables(structure, epsilon=1.0)
    assert [t.scope for t in chosen] == [(0, 1, 2)]
    assert n_cells(chosen[0].scope, structure.sizes) == 8
