"""Theorems 4.1 and 4.2, and what stands for the errors of parameters before any data is read."""

from __future__ import annotations

from itertools import product
from math import prod, sqrt

import numpy as np
import pytest

from qserver.models.network.error_bounds import (
    MAX_WIDTH,
    ErrorBounds,
    error_bounds,
    eta,
    even_error_bounds,
)
from qserver.models.network.network import Network, normalised
from tests.models.network.brute_force import random_network
from tests.models.structures import sized


def test_the_bounds_are_those_of_the_theorems() -> None:
    """A child of three values with two binary parents: eta = 3, treewidth 2, by hand."""
    structure = sized({"a": 2, "b": 2, "c": 3}, [("a", "c"), ("b", "c")])
    assert eta(structure) == 3
    found = error_bounds(structure, least=0.01, greatest=0.03, phi=0.2)
    assert (found.eta, found.width, found.values) == (3, 2, 3)
    assert found.lower == pytest.approx(sqrt(2) * 0.01 * 0.2, rel=1e-12)
    assert found.upper == pytest.approx(2 * 3 * 3**2 * 0.03, rel=1e-12)


def test_of_one_edge_the_least_parameter_does_not_count() -> None:
    structure = sized({"a": 2, "b": 2}, [("a", "b")])
    found = error_bounds(structure, least=0.02, greatest=0.04, phi=0.0)
    assert found == ErrorBounds(2, 1, 2, 0.02, 0.04, 0.02, 2 * 2 * 2 * 0.04)


def test_beyond_a_width_there_is_no_upper_bound() -> None:
    """Every pair of 26 variables has a child: the first of them to go has 25 neighbours."""
    names = [f"x{i}" for i in range(26)]
    pairs = {f"y{i}-{j}": (f"x{i}", f"x{j}") for i in range(26) for j in range(i)}
    edges = [(parent, child) for child, pair in pairs.items() for parent in pair]
    found = error_bounds(
        sized({**dict.fromkeys(names, 2), **dict.fromkeys(pairs, 2)}, edges),
        least=1.0,
        greatest=2.0,
        phi=0.5,
    )
    assert (found.width, found.upper) == (None, None)
    assert MAX_WIDTH < 25


def product_of(network: Network, tables: list[int]) -> np.ndarray:
    """The product of some variables' tables, an axis for each variable."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    families = ["".join(letters[j] for j in network.structure.family(i)) for i in tables]
    out = "".join(sorted(set("".join(families))))
    return np.einsum(",".join(families) + "->" + out, *(network.cpds[i] for i in tables))


@pytest.mark.parametrize("seed", range(20))
def test_no_first_term_of_elimination_errs_by_more_than_the_upper_bound(seed: int) -> None:
    """Every variable eliminated first, from random parameters and from ones nearby."""
    truth = random_network(seed, n_variables=6)
    structure = truth.structure
    if not structure.edges:
        structure = sized({"a": 2, "b": 2}, [("a", "b")])
    rng = np.random.default_rng(seed)
    near = Network(structure, tuple(normalised(c + 0.2 * rng.random(c.shape)) for c in truth.cpds))
    pairs = list(zip(truth.cpds, near.cpds, strict=True))
    greatest = max(float(np.abs(a - b).max()) for a, b in pairs)
    found = error_bounds(structure, least=0.0, greatest=greatest, phi=0.0)
    assert found.upper is not None
    for i in range(len(structure.variables)):
        tables = sorted({i, *structure.children[i]})
        held = sorted({j for t in tables for j in structure.family(t)})
        one, other = (product_of(net, tables).sum(axis=held.index(i)) for net in (truth, near))
        assert float(np.abs(one - other).max()) <= found.upper


@pytest.mark.parametrize(("rows", "size"), [((2, 3), 4), ((), 3), ((2,), 2)])
def test_the_deviation_is_that_of_the_parameters_by_their_derivatives(
    rows: tuple[int, ...], size: int
) -> None:
    """White noise of variance 7 on a table of equal counts, through the Jacobian of its rows."""
    parents = {f"p{i}": n for i, n in enumerate(rows)}
    structure = sized({**parents, "c": size}, [(name, "c") for name in parents])
    noise = [7.0] * len(structure.sizes)
    found = even_error_bounds(structure, noise)
    assert found is not None
    n = 1000.0
    jacobian = np.zeros((prod(rows) * size,) * 2)
    for row, x, y in product(range(prod(rows)), range(size), range(size)):
        # d(c_x / total) / d c_y at equal counts.
        count = n / prod(rows) / size
        slope = (x == y) / (count * size) - count / (count * size) ** 2
        jacobian[row * size + x, row * size + y] = slope
    deviations = np.sqrt(7.0 * np.diag(jacobian @ jacobian.T))
    child = sqrt(7.0 * (1 - 1 / size)) * prod(rows)
    np.testing.assert_allclose(deviations, child / n, rtol=1e-12)
    roots = [sqrt(7.0 * (1 - 1 / k)) for k in rows]
    assert (found.least, found.greatest) == (min([child, *roots]), max([child, *roots]))
    assert found.lower == pytest.approx(
        sqrt(eta(structure) - 1) * found.least * (1 / max(structure.sizes)) ** max(len(rows) - 1, 0)
    )


def test_variables_of_one_value_have_no_error() -> None:
    alone = sized({"one": 1, "a": 2}, [("one", "a")])
    found = even_error_bounds(alone, [0.0, 2.0])
    assert found is not None
    assert found.least == found.greatest == 1.0
    assert even_error_bounds(sized({"one": 1}, []), [0.0]) is None
