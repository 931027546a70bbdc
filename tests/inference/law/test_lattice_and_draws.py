"""What only the convolution and only the Monte Carlo evaluator promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.errors import CapacityError, RequirementError
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.law.paper_methods import (
    LatticeMasses,
    MonteCarlo,
    lattice_error,
    mean_rounding,
    mean_square_rounding,
)
from tests.reference.convolution import Convolution


def laplace_cdf(x: float) -> float:
    return 0.5 * math.exp(x) if x < 0.0 else 1.0 - 0.5 * math.exp(-x)


@pytest.mark.parametrize("step", [0.25, 0.01], ids=["direct", "fourier"])
def test_lattice_masses_match_direct_convolution_of_cdf_differences(step: float) -> None:
    """The fine step makes lattices long enough for the Fourier transform."""
    scales, reach = [0.5, 0.2, 0.35], math.ceil(22.0 / step)
    expected = np.ones(1)
    for c in scales:
        edges = [laplace_cdf((k - 0.5) * step / c) for k in range(-reach, reach + 2)]
        expected = np.convolve(expected, np.diff(edges))
    lattice = LatticeMasses.of(np.array(scales), step=step)
    cut = (len(expected) - len(lattice.masses)) // 2
    assert_allclose(lattice.masses, expected[cut:-cut], rtol=0, atol=1e-15)
    assert 1.0 - 1e-13 < lattice.masses.sum() <= 1.0 + 1e-14


def test_lost_probability_is_bounded() -> None:
    """The paper's lemma 4.3: what the cut tails take away, and nothing else."""
    scales, step = np.array([1.0, 0.3]), 0.5
    lattice = LatticeMasses.of(scales, step=step)
    assert 0.0 < lattice.loss <= 2e-15
    assert abs(1.0 - lattice.masses.sum()) <= lattice.loss + lattice.rounding


@pytest.mark.parametrize("points", [4, 20, 200])
@pytest.mark.parametrize(
    "scales", [[1.0, 1.0], [1.0, 0.3, 0.3], [1.0] * 12, [1.0, 0.01, 0.001], [1.0, 0.9, 0.05]]
)
def test_reported_error_covers_the_real_one_at_any_step(scales: list[float], points: int) -> None:
    law, lattice = LaplaceSum(scales), LaplaceSum(scales, evaluator=Convolution(points))
    for confidence in (0.2, 0.5, 0.9, 0.99):
        h = law.half_width(confidence)
        certified = lattice.certify(h)
        assert abs(certified.probability - law.within(h)) <= certified.error


@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.9, 2.1, 6.0, 40.0])
def test_rounding_moments_bound_those_of_the_lattice(ratio: float) -> None:
    """Cell by cell quadrature of X - K and its square for X = Lap(1) on a lattice of step g."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    mean = square = 0.0
    for k in range(math.ceil(40.0 / ratio) + 1):
        for low, high in ((-0.5, 0.0), (0.0, 0.5)):
            xi = ratio * (0.5 * (high - low) * nodes + 0.5 * (high + low))
            mass = weights * 0.25 * ratio * 0.5 * np.exp(-np.abs(k * ratio + xi))
            copies = 1.0 if k == 0 else 2.0
            square += copies * float(mass @ np.square(xi))
            mean += 2.0 * float(mass @ xi) if k > 0 else 0.0
    scale = np.array([1.0])
    shift, spread = mean_rounding(scale, ratio)[0], mean_square_rounding(scale, ratio)[0]
    assert abs(mean) <= shift * (1.0 + 1e-9)
    assert square <= spread * (1.0 + 1e-9)
    if ratio < 1.0:
        assert_allclose([shift, spread], [abs(mean), square], rtol=0.05)


def test_lattice_error_of_two_scales_is_the_written_sum() -> None:
    """For one rounded scale: sup f = 1/2c and sup abs(f') = 1/2c^2 of the exact law, c = 2."""
    shift = mean_rounding(np.array([0.7]), 0.1)[0]
    square = mean_square_rounding(np.array([0.7]), 0.1)[0]
    expected = shift / 4.0 + square / 8.0
    assert_allclose(lattice_error(np.array([2.0, 0.7]), 0.1), expected, rtol=1e-12)


def test_lattice_error_falls_with_the_square_of_the_step() -> None:
    scales = np.array([1.0, 0.8, 0.5, 0.5])
    coarse, fine = lattice_error(scales, 0.02), lattice_error(scales, 0.01)
    assert_allclose(coarse / fine, 4.0, rtol=0.1)


def test_step_follows_the_interval_length() -> None:
    """Half the step, a quarter of the real error: the default is fine enough to see order 2."""
    law = LaplaceSum([1.0, 0.7, 0.4])
    h = law.half_width(0.5)
    errors = [
        abs(LaplaceSum(law.scales, evaluator=Convolution(n)).within(h) - law.within(h))
        for n in (100, 200)
    ]
    assert_allclose(errors[0] / errors[1], 4.0, rtol=0.2)


def test_a_lattice_beyond_all_bounds_is_refused() -> None:
    with pytest.raises(CapacityError, match="too many points"):
        LaplaceSum(np.ones(5000), evaluator=Convolution()).within(1e-9)


def test_monte_carlo_repeats_with_the_seed_and_reports_its_confidence() -> None:
    laws = [
        LaplaceSum([1.0, 0.5], evaluator=MonteCarlo(np.random.default_rng(7), n_draws=1000))
        for _ in range(2)
    ]
    assert laws[0].within(1.0) == laws[1].within(1.0)
    assert laws[0].certify(1.0).confidence == 1.0 - 1e-9


def test_monte_carlo_error_is_the_uniform_bound() -> None:
    """m = 2000 at 99 %: sqrt(ln(200) / 4000), and the whole empirical law stays inside."""
    evaluator = MonteCarlo(np.random.default_rng(3), n_draws=2000, confidence=0.99)
    law, exact = LaplaceSum([1.0, 2.0], evaluator=evaluator), LaplaceSum([1.0, 2.0])
    bound = math.sqrt(math.log(200.0) / 4000.0)
    assert_allclose(law.certify(1.0).error, bound, rtol=1e-12)
    worst = max(abs(law.within(h) - exact.within(h)) for h in np.linspace(0.0, 12.0, 60))
    assert 0.0 < worst <= bound


def test_bad_settings_are_refused() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(RequirementError, match="`points_per_length` must be >= 1, got 0"):
        Convolution(points_per_length=0)
    with pytest.raises(RequirementError, match="`n_draws` must be >= 1, got 0"):
        MonteCarlo(generator, n_draws=0)
    for confidence in (0.0, 1.0, math.nan):
        with pytest.raises(RequirementError, match="`confidence`"):
            MonteCarlo(generator, confidence=confidence)
