"""The posterior of a non-negative quantity against quadrature in many digits."""

from __future__ import annotations

import math

import mpmath
import pytest
from numpy.testing import assert_allclose

from qserver.errors import RequirementError
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.posterior.positive_prior import PositivePosterior

SCALES = [1.0, 0.5, 0.2]
ESTIMATES = [-300.0, -20.0, -1.0, 0.0, 0.4, 3.0, 30.0]
EACH_ESTIMATE = pytest.mark.parametrize("estimate", ESTIMATES)


def density(x: mpmath.mpf) -> mpmath.mpf:
    """Density of W by partial fractions."""
    scales = [mpmath.mpf(c) for c in SCALES]
    total = mpmath.mpf(0)
    for i, c in enumerate(scales):
        weight = mpmath.mpf(1)
        for j, other in enumerate(scales):
            if j != i:
                weight /= 1 - (other / c) ** 2
        total += weight * mpmath.exp(-abs(x) / c) / (2 * c)
    return total


def mass(estimate: float, low: float, high: float) -> float:
    """P(low <= q <= high) by quadrature of the density cut at 0."""
    with mpmath.workdps(30):
        e = mpmath.mpf(estimate)

        def area(a: mpmath.mpf, b: mpmath.mpf) -> mpmath.mpf:
            kinks = sorted({a, b} | {x for x in (e, a + 1, a + 5) if a < x < b})
            # Scaled by exp(e) far below 0, where the plain density would lose its digits.
            boost = mpmath.exp(max(-e, mpmath.mpf(0)))
            return mpmath.quad(lambda q: boost * density(q - e), kinks)

        top = max(e, mpmath.mpf(0)) + 80
        return float(area(mpmath.mpf(low), min(mpmath.mpf(high), top)) / area(mpmath.mpf(0), top))


@EACH_ESTIMATE
def test_probabilities_match_quadrature(estimate: float) -> None:
    posterior = PositivePosterior(estimate, LaplaceSum(SCALES))
    for low, high in ((0.0, 0.5), (0.3, 2.0), (1.0, 8.0), (2.5, math.inf), (25.0, 31.0)):
        expected = mass(estimate, low, high)
        assert_allclose(posterior.probability(low, high), expected, rtol=1e-9, atol=1e-13)


@EACH_ESTIMATE
def test_median_halves_the_mass(estimate: float) -> None:
    posterior = PositivePosterior(estimate, LaplaceSum(SCALES))
    assert_allclose(mass(estimate, 0.0, posterior.median), 0.5, rtol=1e-10)


@EACH_ESTIMATE
@pytest.mark.parametrize("confidence", [0.2, 0.5, 0.95, 0.999])
def test_interval_holds_its_confidence_and_is_shortest(estimate: float, confidence: float) -> None:
    """An interval of a unimodal law is shortest when its ends have equal density, or one is 0."""
    interval = PositivePosterior(estimate, LaplaceSum(SCALES)).interval(confidence)
    assert 0.0 <= interval.low < interval.high
    assert_allclose(mass(estimate, interval.low, interval.high), confidence, rtol=1e-9)
    low, high = density(interval.low - estimate), density(interval.high - estimate)
    if interval.low > 0.0:
        assert_allclose(float(low / high), 1.0, rtol=1e-9)
    else:
        assert low >= high * (1 - mpmath.mpf(10) ** -9)


def test_far_below_zero_the_posterior_is_exponential_of_the_largest_scale() -> None:
    posterior = PositivePosterior(-1e5, LaplaceSum([2.0, 0.5, 0.1]))
    assert_allclose(posterior.median, 2.0 * math.log(2.0), rtol=1e-8)
    assert_allclose(posterior.interval(0.95).high, 2.0 * math.log(20.0), rtol=1e-8)
    assert_allclose(posterior.probability(0.0, 1.0), -math.expm1(-0.5), rtol=1e-8)


def test_far_above_zero_the_prior_changes_nothing() -> None:
    law = LaplaceSum(SCALES)
    posterior = PositivePosterior(1e4, law)
    half = law.half_width(0.95)
    interval = posterior.interval(0.95)
    assert_allclose([interval.low, interval.high], [1e4 - half, 1e4 + half], rtol=1e-12)
    assert_allclose(posterior.median, 1e4, rtol=1e-12)


def test_mass_below_zero_is_nil_and_all_of_it_is_one() -> None:
    posterior = PositivePosterior(-2.0, LaplaceSum(SCALES))
    assert posterior.probability(-5.0, 0.0) == 0.0
    assert posterior.probability(-math.inf, math.inf) == 1.0
    assert posterior.probability(1.0, 1.0) == 0.0


def test_bad_arguments_are_refused() -> None:
    law = LaplaceSum(SCALES)
    for estimate in (math.nan, math.inf):
        with pytest.raises(RequirementError, match="`estimate` must be finite"):
            PositivePosterior(estimate, law)
    with pytest.raises(RequirementError, match="`error` must have a scale > 0"):
        PositivePosterior(1.0, LaplaceSum([0.0]))
    posterior = PositivePosterior(1.0, law)
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(RequirementError, match="`confidence`"):
            posterior.interval(confidence)
    for low, high in ((2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)):
        with pytest.raises(RequirementError, match="`high` must be >= `low`"):
            posterior.probability(low, high)
