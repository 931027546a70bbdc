"""Moments of normal laws times Laplace factors, and the sites that follow."""

from __future__ import annotations

import numpy as np
import pytest

from qserver.inference.disagreement.known_sums import KnownSums, normal_law
from qserver.inference.disagreement.normal_law_given_sums import Cavity


@pytest.mark.parametrize(
    ("mean", "variance"), [(0.0, 1.0), (0.3, 2.0), (-5.0, 1e4), (40.0, 3.0), (1e-3, 1e-4)]
)
def test_moments_are_those_of_the_density(mean: float, variance: float) -> None:
    cavity = Cavity(np.array([mean]), np.array([variance]), np.ones(1))
    found = cavity.with_factors()
    u = np.linspace(-60.0, 60.0, 2_000_001) if variance > 1.0 else np.linspace(-9, 9, 2_000_001)
    density = np.exp(-np.abs(u) - (u - mean) ** 2 / (2.0 * variance))
    density /= density.sum()
    expected = (density * u).sum()
    spread = (density * (u - expected) ** 2).sum()
    assert found[0] == pytest.approx(expected, abs=2e-6)
    assert found[1] == pytest.approx(spread, rel=1e-5)


def test_without_known_sums_the_normal_law_has_the_moments_of_laplace_ones() -> None:
    given = KnownSums(np.ones(3), np.zeros((0, 3)), np.zeros(0)).reduced()
    law = normal_law(given)
    assert law.mean == pytest.approx(np.zeros(3))
    assert law.times(np.eye(3)) == pytest.approx(2.0 * np.eye(3))


def test_the_normal_law_fulfils_the_known_sums() -> None:
    known = KnownSums(np.array([1.0, 0.0, 0.0]), np.array([[1.0, 1.0, -1.0]]), np.array([7.0]))
    given = known.reduced()
    law = normal_law(given)
    assert given.sums @ law.mean == pytest.approx(given.values)
    assert given.sums @ law.times(given.sums.T) == pytest.approx(0.0, abs=1e-9)
