"""The law of an error under Gaussian noise, against 50 digits and exact sums on the lattice."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from qserver.errors import RequirementError
from qserver.inference.estimate import Posterior
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.law.normal_sum import NormalSum, sum_of
from qserver.inference.rows.shortest_interval import safe_half_width, safe_half_width_of_tail
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE

SCALES = np.array([3.0, 4.0, 12.0, 0.0])  # of deviation 13


def tail(h: float, deviation: float = 13.0) -> mpmath.mpf:
    with mpmath.workdps(50):
        return mpmath.erfc(mpmath.mpf(h) / deviation / mpmath.sqrt(2))


@pytest.mark.parametrize("h", [0.0, 1e-6, 5.0, 25.0, 80.0, 400.0, 1300.0])
def test_probabilities_are_those_of_the_normal_law(h: float) -> None:
    law = NormalSum(SCALES)
    assert law.tail(h) == pytest.approx(float(tail(h)), rel=1e-12, abs=1e-300)
    assert law.log_tail(h) == pytest.approx(float(mpmath.log(tail(h))), rel=1e-12, abs=1e-15)
    assert law.certify(h).lower <= 1 - tail(h)
    assert law.cdf(-h) == pytest.approx(float(tail(h) / 2), rel=1e-12, abs=1e-300)
    assert law.cdf(h) == pytest.approx(float(1 - tail(h) / 2), rel=1e-12)
    assert law.density(h) == pytest.approx(math.exp(-h * h / 338) / 13 / math.tau**0.5, rel=1e-12)


@pytest.mark.parametrize("delta", [0.9, 0.2, 0.05, 1e-6, 1e-12])
def test_a_safe_half_width_is_rounded_up_and_by_little(delta: float) -> None:
    found = safe_half_width(SCALES, 1.0 - delta, GAUSSIAN)
    assert tail(found) <= 1 - mpmath.mpf(1.0 - delta)
    assert tail(found * (1 - 3e-9)) >= 1 - mpmath.mpf(1.0 - delta) or delta < 1e-9
    small = safe_half_width_of_tail(SCALES, delta * 1e-30, GAUSSIAN)
    assert delta * 1e-30 * (1 - 1e-5) <= tail(small) <= delta * 1e-30


def test_without_noise_nothing_is_missed() -> None:
    law = NormalSum(np.zeros(2))
    assert (law.tail(0.0), law.cdf(0.0), law.cdf(-1e-9), law.within(0.0)) == (0.0, 1.0, 0.0, 1.0)
    assert law.is_exact
    assert law.log_tail(1.0) == -math.inf


def test_each_law_of_noise_has_its_own_sum() -> None:
    assert isinstance(sum_of(SCALES, LAPLACE), LaplaceSum)
    assert isinstance(sum_of(SCALES, GAUSSIAN), NormalSum)
    known = Posterior(1.0, SCALES, 0.5, law=GAUSSIAN)
    assert known.half_width(0.95) == pytest.approx(13 * 1.959963984540054 + 0.5, rel=1e-8)
    twice = known.scaled(Fraction(-2))
    assert twice.law is GAUSSIAN
    assert twice.half_width(0.95) == pytest.approx(2 * known.half_width(0.95), rel=1e-9)
    assert known.confidence_of(known.half_width(0.9)) == pytest.approx(0.9, abs=1e-8)
    with pytest.raises(RequirementError, match="Laplace"):
        _ = known.laplace_scales


@pytest.mark.parametrize("s", [1.0, 1.3, 2.0, 7.5, 60.0])
def test_a_lattice_step_holds_all_that_the_lattice_changes(s: float) -> None:
    """Of the quantile coupling: P(X > j + 1) <= P(K > j) <= P(X > j), in 50 digits."""
    with mpmath.workdps(50):
        s = mpmath.mpf(s)
        weights = [mpmath.exp(-(mpmath.mpf(j) ** 2) / (2 * s * s)) for j in range(int(14 * s) + 2)]
        whole, beyond = 2 * mpmath.fsum(weights) - 1, mpmath.fsum(weights)
        for j in range(int(9 * s)):
            beyond -= weights[j]
            above = beyond / whole
            assert tail(j + 1, s) / 2 <= above <= tail(j, s) / 2
