"""Sums of many normal laws by fewer on a grid, against each law by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.disagreement.normal_laws_on_grid import OFF, Normals, on_grid


def _drawn(n: int, spread: float, *, seed: int) -> tuple[Normals, Places]:
    """Laws with weights in eight sums, and the sum of each."""
    rng = np.random.default_rng(seed)
    sums, weights = rng.integers(0, 8, n, dtype=np.intp), np.zeros((n, 8))
    weights[np.arange(n), sums] = rng.exponential(size=n)
    deviations = np.exp(spread * rng.normal(size=n))
    return Normals(3.0 + 2.0 * spread * rng.normal(size=n), deviations, weights), sums


def _below(laws: Normals, places: FloatArray) -> FloatArray:
    return np.asarray(ndtr((places[:, None] - laws.means) / laws.deviations) @ laws.weights)


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.2, 0.6])
@pytest.mark.parametrize("n", [1_000, 6_000])
def test_probabilities_on_a_grid_are_those_of_all_laws(spread: float, n: int) -> None:
    laws, sums = _drawn(n, spread, seed=n)
    found = on_grid(laws, sums)
    places = np.linspace(-9.0, 15.0, 301)
    off = np.sum([_below(one, places) for one in found], axis=0) - _below(laws, places)
    assert np.abs(off / laws.weights.sum(axis=0)).max() < OFF


def test_thousands_of_laws_become_hundreds_and_a_few_stay_as_they_are() -> None:
    laws, sums = _drawn(6_000, 0.2, seed=1)
    assert sum(len(one.means) for one in on_grid(laws, sums)) < 1_000
    few, sums = _drawn(500, 0.2, seed=1)
    assert on_grid(few, sums) == [few]


def test_laws_far_narrower_than_the_others_add_nothing_to_the_grid() -> None:
    laws, sums = _drawn(6_000, 0.2, seed=2)
    deviations = laws.deviations.copy()
    deviations[::40] *= 1e-6
    narrower = Normals(laws.means, deviations, laws.weights)
    n_before = sum(len(one.means) for one in on_grid(laws, sums))
    assert sum(len(one.means) for one in on_grid(narrower, sums)) < 1.2 * n_before


def test_a_grid_that_would_be_larger_than_the_laws_is_not_made() -> None:
    laws, sums = _drawn(6_000, 4.0, seed=3)
    assert sum(len(one.means) for one in on_grid(laws, sums)) == 6_000
