"""What the noise of tables does to a network's parameters, against dense least squares."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest

from qserver.answering.models.kinds.network_kind import foretold_bounds, own_table
from qserver.models.network.learning.estimation import NoisyTable, Scope
from tests.models.structures import sized

SIZES = {"a": 2, "b": 3, "c": 2}
STRUCTURE = sized(SIZES, [("a", "b"), ("b", "c")])
TABLES: list[tuple[Scope, float]] = [((0, 1), 2.0), ((0, 1, 2), 5.0), ((1, 2), 3.0), ((2,), 1.0)]


def released(*tables: tuple[Scope, float]) -> list[NoisyTable]:
    sizes = tuple(SIZES.values())
    return [NoisyTable(s, b, np.zeros([sizes[i] for i in s])) for s, b in tables]


def design(scope: Scope) -> np.ndarray:
    """Rows of the marginal over `scope`, on the cells of all three."""
    sizes = tuple(SIZES.values())
    cells = list(product(*map(range, sizes)))
    rows = product(*(range(sizes[i]) for i in scope))
    return np.array([[float(tuple(c[i] for i in scope) == r) for c in cells] for r in rows])


def deviations(scope: Scope, size: int, covariance: np.ndarray) -> list[float]:
    """Of the parameters of a family, its own axis last, times N, where all are equally likely."""
    cells = len(covariance)
    jacobian = np.kron(np.eye(cells // size), np.eye(size) - 1 / size) * (cells / size)
    return np.sqrt(np.diag(jacobian @ covariance @ jacobian.T)).tolist()


def test_best_reads_a_family_off_all_tables() -> None:
    """Generalised least squares on the cells, through the Jacobian of each family's rows."""
    whole = np.vstack([design(s) / sqrt(2 * b * b) for s, b in TABLES])
    inverse = np.linalg.pinv(whole.T @ whole, rcond=1e-10)
    expected: list[float] = []
    for scope, size in (((0,), 2), ((0, 1), 3), ((1, 2), 2)):
        rows = design(scope)
        expected += deviations(scope, size, rows @ inverse @ rows.T)
    found = foretold_bounds(STRUCTURE, "best", released(*TABLES))
    assert found is not None
    assert found.least == pytest.approx(min(expected), rel=1e-9)
    assert found.greatest == pytest.approx(max(expected), rel=1e-9)


@pytest.mark.parametrize(
    ("allocation", "variances"),
    [
        # The least noisy table that holds the family, whatever must be summed.
        ("rows", {"a": 2 * 4 * 3, "b": 2 * 4, "c": 2 * 9}),
        # Its own table; where there is none, the sums with the least noise.
        ("uniform", {"a": 2 * 4 * 3, "b": 2 * 4, "c": 2 * 9}),
    ],
)
def test_other_allocations_read_it_off_one_table(
    allocation: str, variances: dict[str, float]
) -> None:
    found = foretold_bounds(STRUCTURE, allocation, released(*TABLES[:3]))
    rows = {"a": 1, "b": 2, "c": 3}
    each = [sqrt(v * (1 - 1 / SIZES[x])) * rows[x] for x, v in variances.items()]
    assert found is not None
    assert (found.least, found.greatest) == pytest.approx((min(each), max(each)))


def test_rows_take_the_least_noisy_table_and_uniform_a_family_s_own() -> None:
    tables = released(((0, 1), 4.0), ((0, 1, 2), 1.0), ((1, 2), 4.0))
    by_rows, own = (foretold_bounds(STRUCTURE, a, tables) for a in ("rows", "uniform"))
    assert by_rows is not None
    assert own is not None
    assert own_table((0, 1), tables, STRUCTURE).scale == 4.0
    # c given b: off the widest table, its sums over a; off the family's own.
    assert by_rows.greatest == pytest.approx(sqrt(2 * 2 * 1 / 2) * 3)
    assert own.greatest == pytest.approx(sqrt(2 * 16 * 1 / 2) * 3)


def test_attributes_of_one_value_are_in_no_table() -> None:
    structure = sized({"one": 1, "a": 2}, [("one", "a")])
    table = NoisyTable((1,), 1.0, np.zeros(2))
    for allocation in ("best", "rows", "uniform"):
        found = foretold_bounds(structure, allocation, [table])
        assert found is not None
        assert found.greatest == pytest.approx(1.0)


def test_the_noise_s_scale_is_the_error_s() -> None:
    scopes = ((0, 1), (1, 2))
    one, two = (
        foretold_bounds(STRUCTURE, "best", released(*((s, b) for s in scopes))) for b in (1.0, 2.0)
    )
    assert one is not None
    assert two is not None
    assert two.upper == pytest.approx(2 * (one.upper or 0))
    assert two.lower == pytest.approx(2 * one.lower)
