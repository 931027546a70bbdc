"""The net that draws are points of: as a library makes it, and how much draws err."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from scipy.stats.qmc import Sobol

from qserver.inference.smooth.digital_net import N_COORDINATES, net
from qserver.inference.smooth.part_law import N_PAIRS, PartLaw
from qserver.records.privacy.noise_law import GAUSSIAN, LAPLACE


@pytest.mark.parametrize("n_bits", [1, 4, 11])
def test_the_net_is_the_one_of_joe_and_kuo(n_bits: int) -> None:
    points = Sobol(N_COORDINATES, scramble=False).random_base2(n_bits)
    assert (net(n_bits) == (points.T * (1 << n_bits)).astype(int)).all()


def test_each_coordinate_has_every_number_once() -> None:
    assert (np.sort(net(11), axis=1) == np.arange(1 << 11)).all()


@pytest.mark.parametrize(
    ("n", "most"), [(2, 0.02), (N_COORDINATES, 0.04), (2 * N_COORDINATES, 0.04)]
)
def test_sums_of_normal_errors_have_the_quantile_of_their_law(n: int, most: float) -> None:
    """Whether all variables are in the net or not: the root of mean squares over 20 seeds."""
    scales = np.linspace(1.0, 2.0, n)
    exact = float(norm.ppf(0.975)) * math.sqrt(float((scales**2).sum()))
    errors = []
    for seed in range(20):
        drawn = PartLaw.of_scales(np.zeros(n), scales, GAUSSIAN, seed=seed).errors.sum(axis=0)
        assert drawn.shape == (2 * N_PAIRS,)
        errors.append(float(np.quantile(np.abs(drawn), 0.95)) / exact - 1.0)
    assert math.sqrt(float(np.square(errors).mean())) < most


def test_no_two_laplace_errors_are_drawn_far_from_independently() -> None:
    """P(abs(X + Y) > t) = (1 + t / 2) exp(-t); beyond the net's places orders are random."""
    exact = brentq(lambda t: (1.0 + t / 2.0) * math.exp(-t) - 0.05, 0.0, 50.0)
    drawn = PartLaw.of_scales(np.zeros(40), np.ones(40), LAPLACE, seed=2).errors
    pairs = [(i, j) for i in range(40) for j in range(i)]
    found = [float(np.quantile(np.abs(drawn[i] + drawn[j]), 0.95)) / exact for i, j in pairs]
    assert min(found) > 0.9
    assert max(found) < 1.1
    assert math.sqrt(np.square(np.array(found) - 1.0).mean()) < 0.03
