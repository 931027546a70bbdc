"""A posterior's points against the Laplace law in closed form, and against numerical integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from qserver.errors import RequirementError
from qserver.inference.estimate import Posterior
from qserver.inference.posterior.curve import posterior_curve

ONE = Posterior(100.0, np.array([10.0]), 0.5)
SEVERAL = Posterior(-3.0, np.array([4.0, 1.0, 2.5]), 0.0)


def test_the_points_of_one_laplace_variable_are_its_closed_forms() -> None:
    points = posterior_curve(ONE, confidence=0.99, n_points=41)
    half = 10 * math.log(100)
    assert [p.x for p in points] == pytest.approx(np.linspace(100 - half, 100 + half, 41))
    for point in points:
        z = (point.x - 100) / 10
        assert point.density == pytest.approx(math.exp(-abs(z)) / 20, rel=1e-9)
        upper = 0.5 * math.exp(-z) if z >= 0 else 1 - 0.5 * math.exp(z)
        assert point.at_least == pytest.approx(upper, rel=1e-9)


def test_probabilities_are_the_areas_under_the_density() -> None:
    """The densities of a sum of Laplace variables, integrated; the points lie 1 % apart."""
    points = posterior_curve(SEVERAL, confidence=0.999, n_points=401)
    for left, right in zip(points[::40], points[40::40], strict=False):
        area, _ = quad(lambda x: SEVERAL.error.density(x + 3.0), left.x, right.x)
        assert left.at_least - right.at_least == pytest.approx(area, abs=1e-9)


def test_the_middle_point_is_the_estimate_and_the_rest_is_symmetric() -> None:
    points = posterior_curve(SEVERAL, confidence=0.95, n_points=21)
    assert (points[10].x, points[10].at_least) == (-3.0, 0.5)
    for left, right in zip(points, reversed(points), strict=True):
        assert left.x + right.x == pytest.approx(-6.0)
        assert left.density == pytest.approx(right.density, rel=1e-12)
        assert left.at_least + right.at_least == pytest.approx(1.0, rel=1e-12)


def test_what_is_exact_has_no_curve() -> None:
    assert posterior_curve(Posterior(7.0, np.zeros(2), 0.0), confidence=0.9, n_points=3) == ()


@pytest.mark.parametrize("n_points", [1, 20, 2003])
def test_the_number_of_points_must_be_odd_and_bounded(n_points: int) -> None:
    with pytest.raises(RequirementError, match="n_points"):
        posterior_curve(ONE, confidence=0.9, n_points=n_points)
