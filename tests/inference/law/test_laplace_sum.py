"""The distribution of a Laplace sum against published digits, closed forms and identities."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.errors import RequirementError
from qserver.inference.law.contour import ContourLaw
from qserver.inference.law.laplace_sum import LaplaceSum

# 15 digits computed with mpmath: partial fractions, Gamma mixtures or a 50-digit contour.
REFERENCE = Path(__file__).parents[2] / "reference" / "laplace_sums.json"
CASES: list[dict[str, Any]] = json.loads(REFERENCE.read_text())["cases"]
EACH_CASE = pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
HALF_ULP_OF_15_DIGITS = 5e-16


@EACH_CASE
def test_probabilities_match_the_reference_digits(case: dict[str, Any]) -> None:
    law = LaplaceSum(case["scales"])
    for half_width, probability in case["prob"]:
        assert_allclose(law.within(half_width), float(probability), rtol=0, atol=1e-14)


@EACH_CASE
def test_tails_match_the_reference_digits_relatively(case: dict[str, Any]) -> None:
    law = LaplaceSum(case["scales"])
    for half_width, tail in case["tail"]:
        assert_allclose(law.tail(half_width), float(tail), rtol=1e-12)


@EACH_CASE
def test_half_widths_match_the_reference_digits(case: dict[str, Any]) -> None:
    """At 0.999999 the double nearest to the confidence is itself off by 3e-11 of the tail."""
    law = LaplaceSum(case["scales"])
    for confidence, half_width in case["half_width"]:
        assert_allclose(law.half_width(float(confidence)), float(half_width), rtol=1e-11)
        log_tail = math.log(1.0 - float(confidence))
        assert_allclose(law.half_width_of_tail(log_tail), float(half_width), rtol=1e-11)


@EACH_CASE
def test_certificates_hold_and_are_small(case: dict[str, Any]) -> None:
    law = LaplaceSum(case["scales"])
    for half_width, probability in case["prob"]:
        certified = law.certify(half_width)
        assert certified.error <= 1e-12
        distance = abs(certified.probability - float(probability))
        assert distance <= certified.error + HALF_ULP_OF_15_DIGITS


@EACH_CASE
def test_contour_alone_agrees_where_a_closed_form_is_used(case: dict[str, Any]) -> None:
    law = ContourLaw.of(np.array([c for c in case["scales"] if c > 0.0]))
    for half_width, tail in case["tail"]:
        assert_allclose(math.exp(law.log_tail(half_width)), float(tail), rtol=1e-12)
        assert law.certify(half_width).error <= 1e-12


def test_no_scale_is_a_point_mass_at_zero() -> None:
    for scales in ([], [0.0, 0.0]):
        law = LaplaceSum(scales)
        assert law.is_exact
        assert (law.within(0.0), law.tail(0.0), law.half_width(0.99)) == (1.0, 0.0, 0.0)
        assert (law.cdf(-1e-9), law.cdf(0.0), law.variance) == (0.0, 1.0, 0.0)
        assert law.density(1.0) == 0.0
        assert law.half_width_gradient(0.9).gradient.tolist() == [0.0] * len(scales)


def test_one_scale_is_the_laplace_law() -> None:
    law = LaplaceSum([0.0, 2.5])
    for half_width in (0.0, 1e-12, 0.3, 4.0, 100.0):
        assert_allclose(law.tail(half_width), math.exp(-half_width / 2.5), rtol=1e-14)
        assert_allclose(law.within(half_width), -math.expm1(-half_width / 2.5), rtol=1e-14)
        assert_allclose(law.density(half_width), math.exp(-half_width / 2.5) / 5.0, rtol=1e-14)
    assert law.half_width_gradient(0.9).gradient.tolist() == pytest.approx([0.0, math.log(10.0)])


@pytest.mark.parametrize("count", [2, 3, 17, 256])
def test_gamma_mixture_and_contour_agree_for_equal_scales(count: int) -> None:
    scales = np.full(count, 3.0)
    closed, contour = LaplaceSum(scales), ContourLaw.of(scales)
    deviation = math.sqrt(closed.variance)
    for share in (1e-6, 0.1, 1.0, 4.0, 40.0):
        h = share * deviation
        assert_allclose(closed.within(h), contour.within(h), rtol=1e-12)
        assert_allclose(closed.log_tail(h), contour.log_tail(h), rtol=1e-12)
        assert_allclose(closed.density(h), contour.density(h), rtol=1e-10 if share < 40 else 1e-9)
    for confidence in (1e-6, 0.15, 0.5, 0.999):
        assert_allclose(closed.half_width(confidence), contour.half_width(confidence), rtol=1e-12)


def test_five_thousand_equal_scales_approach_the_normal_law() -> None:
    """Edgeworth: P(abs(W) <= z sd) differs from the normal by (kurtosis / 12) H_3(z) phi(z)."""
    law = LaplaceSum(np.ones(5000))
    excess = 12.0 / (4.0 * 5000.0)  # fourth cumulant 12 n over variance squared 4 n^2
    z = 1.0
    correction = excess / 12.0 * (z**3 - 3.0 * z) * math.exp(-0.5) / math.sqrt(2.0 * math.pi)
    normal = math.erf(z / math.sqrt(2.0))
    assert_allclose(law.within(100.0), normal - correction, rtol=0, atol=1e-6)
    assert abs(normal - law.within(100.0)) > 1e-5


def test_cdf_is_odd_around_one_half_and_integrates_the_density() -> None:
    law = LaplaceSum([1.0, 0.4, 0.1])
    assert law.cdf(0.0) == 0.5
    nodes, weights = np.polynomial.legendre.leggauss(40)
    for low, high in ((0.0, 0.7), (0.7, 3.0), (3.0, 9.0)):
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        heights = [law.density(middle + half * x) for x in nodes]
        area = half * (weights @ heights)
        assert_allclose(law.cdf(high) - law.cdf(low), area, rtol=1e-12)
        assert_allclose(law.cdf(-low) - law.cdf(-high), area, rtol=1e-12)


def test_half_width_gradient_satisfies_euler_and_differences() -> None:
    scales = np.array([0.7, 0.0, 1.3, 0.05, 0.4])
    for confidence in (0.05, 0.6, 0.95, 0.9999):
        result = LaplaceSum(scales).half_width_gradient(confidence)
        assert_allclose(result.gradient @ scales, result.half_width, rtol=1e-12)
        assert result.gradient[1] == 0.0
        for i in (0, 2, 3, 4):
            step = 1e-4 * scales[i]
            up, down = scales.copy(), scales.copy()
            up[i] += step
            down[i] -= step
            slope = LaplaceSum(up).half_width(confidence) - LaplaceSum(down).half_width(confidence)
            assert_allclose(result.gradient[i], slope / (2.0 * step), rtol=1e-6)


def test_everything_scales_with_a_common_factor() -> None:
    scales = np.array([1.0, 0.3, 0.02])
    plain = LaplaceSum(scales)
    for factor in (1e-200, 1e-9, 1e9, 1e150):
        law = LaplaceSum(scales * factor)
        assert_allclose(law.within(1.7 * factor), plain.within(1.7), rtol=1e-14)
        assert_allclose(law.half_width(0.95), plain.half_width(0.95) * factor, rtol=1e-14)
        assert_allclose(law.density(1.7 * factor) * factor, plain.density(1.7), rtol=1e-14)


@pytest.mark.parametrize("scales", [[1.0], [1.0, 1.0], [1.0, 0.2], [1.0] * 300])
def test_an_infinite_half_width_holds_everything(scales: list[float]) -> None:
    law = LaplaceSum(scales)
    assert law.within(math.inf) == 1.0
    assert law.tail(math.inf) == 0.0
    assert law.density(math.inf) == 0.0
    assert law.certify(math.inf).probability == 1.0
    assert law.within(0.0) == 0.0
    assert law.tail(0.0) == 1.0


@pytest.mark.parametrize("half_width", [5e-324, 1e-20, 1e3, 1e9, 1e13, 1e100, 1e300])
@pytest.mark.parametrize("scales", [[1.0, 0.5], [1.0, 1e-300], [1.0] * 300])
def test_extreme_half_widths_are_answered(scales: list[float], half_width: float) -> None:
    """Far out P(abs(W) > h) lies between exp(-h) and exp(-h/2) 2^n, by Chernoff at s = 1/2."""
    law = LaplaceSum(scales)
    assert law.certify(half_width).error <= 1e-10
    if half_width < 1.0:
        height = 2.0 * law.density(0.0) * half_width
        assert_allclose(law.within(half_width), height, rtol=1e-10, atol=1e-320)
    else:
        most = -0.5 * half_width + math.log(2.0) * (len(scales) + 1)
        assert -half_width * (1.0 + 1e-15) <= law.log_tail(half_width) <= min(0.0, most)


def test_scales_are_copied_and_read_only() -> None:
    scales = np.array([1.0, 2.0])
    law = LaplaceSum(scales)
    before = law.within(1.0)
    scales[0] = 100.0
    assert law.within(1.0) == before
    with pytest.raises(ValueError, match="read-only"):
        law.scales[0] = 5.0


@pytest.mark.parametrize(
    "scales",
    [[math.nan], [1.0, math.inf], [-1e-300], [1e151], [[1.0]], 3.0, ["x"], [10**400], [1j]],
)
def test_bad_scales_are_refused_without_showing_them(scales: Any) -> None:
    with pytest.raises(RequirementError, match="`scales` must") as caught:
        LaplaceSum(scales)
    assert "nan" not in str(caught.value)
    assert "1e-300" not in str(caught.value)


def test_bad_arguments_are_refused() -> None:
    law = LaplaceSum([1.0, 0.5])
    for half_width in (-1.0, math.nan):
        for method in (law.within, law.tail, law.log_tail, law.certify):
            with pytest.raises(RequirementError, match="`half_width` must be >= 0"):
                method(half_width)
    with pytest.raises(RequirementError, match="`half_width`"):
        law.density(math.nan)
    for confidence in (0.0, 1.0, -0.1, 1.1, math.nan):
        with pytest.raises(RequirementError, match=r"`confidence` must lie in \(0, 1\)"):
            law.half_width(confidence)
        with pytest.raises(RequirementError, match="`confidence`"):
            law.half_width_gradient(confidence)
    for log_tail in (0.0, 1.0, -math.inf, math.nan):
        with pytest.raises(RequirementError, match="`log_tail`"):
            law.half_width_of_tail(log_tail)
    with pytest.raises(RequirementError, match="`x`"):
        law.cdf(math.nan)


@pytest.mark.parametrize(("n_small", "n_large"), [(129, 58), (150, 61), (184, 59)])
def test_the_half_width_inverts_the_probability_for_two_groups_of_equal_scales(
    n_small: int, n_large: int
) -> None:
    """The deepest point of the saddle grid is where cancellation once made it useless."""
    law = LaplaceSum(np.append(np.full(n_small, 0.9960499992660914), np.ones(n_large)))
    for confidence in (0.9, 0.95, 0.999):
        half_width = law.half_width(confidence)
        assert_allclose(law.within(half_width), confidence, rtol=1e-10)
        assert half_width < 4.0 * np.sqrt(law.variance)


def test_bisection_finds_the_half_width_that_newton_finds():
    law = ContourLaw.of(np.array([1.0, 0.7, 0.2, 0.1]))
    for log_tail in (-0.8, -3.0, -12.0):
        found = law._bracketed(log_tail) * law.unit
        assert found == pytest.approx(law.half_width_of_tail(log_tail), rel=1e-11)
