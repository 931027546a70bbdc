"""Which rows leave before anything is minimised, by which corners, and in how many steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.linalg import lapack
from scipy.sparse import csr_array

from qserver.inference.corners import base
from qserver.inference.corners.base import Peeled


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each step is made: the two kinds of rounds, and factors of dense blocks."""
    counts = Counter[str]()

    def counted(owner: object, name: str) -> None:
        function: Callable[..., object] = getattr(owner, name)

        def count(*args: object, **keywords: object) -> object:
            counts[name] += 1
            return function(*args, **keywords)

        monkeypatch.setattr(owner, name, count)

    counted(base._Peeling, "take_single")
    counted(base._Peeling, "take_groups")
    counted(lapack, "dgetrf")
    return counts


def peeled(rows: Sequence[Sequence[float]], groups: Sequence[int] | None = None) -> Peeled:
    """What leaves of dense rows; each is of a group of its own if nothing else is said."""
    numbers = np.arange(len(rows)) if groups is None else np.array(groups)
    return base.peeled(csr_array(np.array(rows, dtype=float)), numbers)


def test_rows_with_corners_of_their_own_leave_in_one_round(steps: Counter[str]) -> None:
    """Each by the largest of those that no other row has, the first corner too; no factors."""
    found = peeled([[2, 0, 0, 9], [0, 3, -5, 9], [0, 0, 0, 0]])
    assert_array_equal(found.rows, [0, 1])
    assert_array_equal(found.pivots, [0, 2])
    assert_array_equal(found.core, [])
    assert steps == {"take_single": 2, "take_groups": 1}


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_row_that_waits_for_another_leaves_one_round_later(steps: Counter[str], n: int) -> None:
    """Corner i belongs to the rows up to i, so the first row alone has one to itself at first."""
    found = peeled(np.triu(np.ones((n, n))).tolist())
    assert len(found.core) == 0
    assert_array_equal(found.rows, range(n))
    assert_array_equal(found.pivots, range(n))
    assert steps["take_single"] == n + 1
    assert steps["take_groups"] == 1


def test_a_group_that_is_independent_on_its_corners_leaves_whole_and_lets_others_leave(
    steps: Counter[str],
) -> None:
    """Two rows share two corners; once both are gone, the third has one to itself."""
    found = peeled([[1, 1, 1, 0], [1, 2, 1, 0], [0, 0, 1, 0]], groups=[0, 0, 1])
    assert_array_equal(found.rows, [0, 1, 2])
    assert sorted(found.pivots[:2]) == [0, 1]
    assert found.pivots[2] == 2
    assert_array_equal(found.core, [])
    assert steps == {"take_single": 3, "take_groups": 2, "dgetrf": 1}


def test_dependent_rows_and_those_with_too_few_corners_stay(steps: Counter[str]) -> None:
    dependent = peeled([[1, 2], [2, 4]], groups=[0, 0])
    assert_array_equal(dependent.core, [0, 1])
    assert steps["dgetrf"] == 1
    few = peeled([[1, 1], [1, 2], [2, 1]], groups=[0, 0, 0])
    assert_array_equal(few.core, [0, 1, 2])
    assert steps["dgetrf"] == 1


def test_only_corners_that_no_other_group_has_fix_a_group(steps: Counter[str]) -> None:
    """With the third corner the first two rows are independent, but it belongs to both groups."""
    found = peeled([[1, 1, 1, 0], [2, 2, 1, 0], [0, 0, 1, 1], [0, 0, 2, 2]], groups=[0, 0, 1, 1])
    assert_array_equal(found.core, range(4))
    assert steps == {"take_single": 1, "take_groups": 1, "dgetrf": 1}


@pytest.mark.parametrize(("most", "n_factored"), [(6, 1), (5, 0)])
def test_a_block_that_is_too_large_to_write_out_is_not_factored(
    steps: Counter[str], monkeypatch: pytest.MonkeyPatch, most: int, n_factored: int
) -> None:
    """Two rows on three corners are six numbers."""
    monkeypatch.setattr(base, "_MOST_DENSE", most)
    found = peeled([[1, 1, 1], [1, 2, 3]], groups=[0, 0])
    assert steps["dgetrf"] == n_factored
    assert_array_equal(found.core, [] if n_factored else [0, 1])


def test_pivots_are_the_corners_that_elimination_takes() -> None:
    """By partial pivoting in exact steps: 4 is the largest of row 0; of what is left -2 then."""
    found = peeled([[1, 4, 2], [3, 2, -1]], groups=[0, 0])
    # Row 1 less row 0 times 2 / 4 is 2.5, 0, -2.
    assert_array_equal(found.pivots, [1, 0])


@pytest.mark.parametrize("n", [0, 1])
def test_nothing_or_one_row_is_no_special_case(n: int) -> None:
    found = peeled(np.ones((n, 2)).tolist()) if n else base.peeled(csr_array((0, 2)), np.arange(0))
    assert_array_equal(found.rows, range(n))
    assert len(found.core) == 0
