"""Released answers with Gaussian noise: on the lattice, with the variance that rho pays for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from qserver.errors import MeasurementError
from qserver.records.charge import NANO
from tests.sweeps import n_of
from worker.noise import mechanism
from worker.noise.mechanism import release_gaussian
from worker.noise.randomness import SystemEntropy

STEP = Fraction(1, 1 << 10)


def test_the_variance_is_one_over_twice_rho_in_squared_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Fraction] = []

    def drawn(variance: Fraction, n: int, entropy: object) -> list[int]:
        asked.append(variance)
        return [7] * n

    monkeypatch.setattr(mechanism, "discrete_gaussian", drawn)
    truths: list[Fraction | int] = [Fraction(5, 2), 3]
    found = release_gaussian(truths, step=STEP, rho_nano=8 * 10**6, entropy=SystemEntropy())
    assert found == [Fraction(5, 2) / STEP + 7, 3 / STEP + 7]
    # 1 / (2 rho) squared records, in squared steps.
    assert asked == [Fraction(NANO, 2 * 8 * 10**6) / STEP**2]


@pytest.mark.slow
def test_the_noise_has_this_variance() -> None:
    """Five deviations of the mean and of the variance."""
    n = n_of(40_000, share=4_000)
    truths = [3] * n
    found = release_gaussian(truths, step=STEP, rho_nano=8 * 10**6, entropy=SystemEntropy())
    errors = np.array([float(i * STEP) - 3 for i in found])
    variance = NANO / (2 * 8 * 10**6)
    assert abs(errors.mean()) <= 5 * (variance / n) ** 0.5
    assert abs(errors.var() - variance) <= 5 * variance * (2 / n) ** 0.5


@pytest.mark.parametrize(
    ("truth", "step", "rho"),
    [(Fraction(1, 3), STEP, 1), (1, STEP, 0), (1, STEP, -1), (1, Fraction(0), 1), (1, STEP, True)],
)
def test_what_would_tell_or_is_out_of_range_is_refused(
    truth: Fraction | int, step: Fraction, rho: int
) -> None:
    with pytest.raises(MeasurementError):
        release_gaussian([truth], step=step, rho_nano=rho, entropy=SystemEntropy())
