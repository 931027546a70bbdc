"""The noise as it is drawn, against its exact law: what a fault of 10 percent would look like.

Every test of fit has a false-alarm rate of `FALSE_ALARM` and a seeded source, and is shown to
catch a scale that is `SMALLEST_ERROR` too small and one that is as much too large.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from worker.noise.mechanism import discrete_gaussian, discrete_laplace, refine, release
from worker.noise.randomness import SystemEntropy

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "the sampler has its exact law, and refining keeps it; 10 percent either way is caught",
    ),
]

SEED = 20_201_130
N_DRAWS = 20_000
FALSE_ALARM = 1e-6
"""Chance that one test of fit rejects a right sampler, for a random seed."""
SMALLEST_ERROR = Fraction(1, 10)
"""Least relative error of the scale that a test of fit must reject (the controls show it)."""
CONTROLS = [1 - SMALLEST_ERROR, 1 + SMALLEST_ERROR]

COARSE = Fraction(1, 3)
FINE = Fraction(1, 1000 * 2**20)
"""Rate of a row with alpha = 1/1000 on a lattice of step 2^-20."""

Draws = npt.NDArray[np.float64]


class SeededEntropy:
    """A repeatable source, for tests alone."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        return np.frombuffer(self._random.randbytes(8 * n), dtype="<u8")


def laplace_draws(rate: Fraction) -> list[int]:
    return discrete_laplace(rate, N_DRAWS, SeededEntropy())


def refined_draws(new: Fraction, *, n_steps: int = 1) -> list[tuple[int, int]]:
    """(old noise of half the rate, new noise), reached in `n_steps` equal steps of alpha."""
    old, entropy = new / 2, SeededEntropy()
    first = last = discrete_laplace(old, N_DRAWS, entropy)
    for i in range(n_steps):
        last = refine(
            last,
            old_alphas_nano=[(n_steps + i) * 10**9] * N_DRAWS,
            new_alpha_nano=(n_steps + i + 1) * 10**9,
            step=old / n_steps,
            entropy=entropy,
        )
    return list(zip(first, last, strict=True))


def fit_of_lattice(draws: list[int], rate: Fraction) -> float:
    """p-value of chi-square against P(k) = tanh(rate / 2) exp(-rate abs(k)) by mpmath.

    Tails whose cells would hold fewer than 20 expected draws are pooled, one on each side.
    """
    exact = mpmath.mpf(rate.numerator) / rate.denominator
    peak = mpmath.tanh(exact / 2)
    edge = int(mpmath.floor(mpmath.log(len(draws) * peak / 20) / exact))
    inner = [float(peak * mpmath.exp(-exact * abs(k))) for k in range(-edge, edge + 1)]
    tail = (1 - sum(inner)) / 2
    counts = Counter(max(-edge - 1, min(edge + 1, k)) for k in draws)
    observed = [counts[k] for k in range(-edge - 1, edge + 2)]
    expected = [len(draws) * p for p in (tail, *inner, tail)]
    return float(stats.chisquare(observed, expected).pvalue)


def fit_of_scaled(draws: list[int], rate: Fraction) -> float:
    """p-value of Kolmogorov-Smirnov against the continuous law, 1e-9 away from `FINE`."""
    scaled: Draws = np.array([float(rate * k) for k in draws])
    return float(stats.kstest(scaled, "laplace").pvalue)


FITS = [(fit_of_lattice, COARSE), (fit_of_scaled, FINE)]
Fit = Callable[[list[int], Fraction], float]


@pytest.mark.parametrize(("fit", "rate"), FITS)
def test_noise_fits_its_exact_law(fit: Fit, rate: Fraction) -> None:
    assert fit(laplace_draws(rate), rate) > FALSE_ALARM


@pytest.mark.parametrize("scale_error", CONTROLS)
@pytest.mark.parametrize(("fit", "rate"), FITS)
def test_noise_of_a_wrong_scale_is_caught(fit: Fit, rate: Fraction, scale_error: Fraction) -> None:
    """Negative control on each side."""
    assert fit(laplace_draws(rate / scale_error), rate) < FALSE_ALARM


def fit_of_gaussian(draws: list[int], variance: Fraction) -> float:
    """p-value of chi-square against P(k) proportional to exp(-k^2 / (2 variance)), as above."""
    edge = int(3 * mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator))
    weights = [math.exp(-k * k / (2 * float(variance))) for k in range(10 * edge)]
    total = weights[0] + 2 * sum(weights[1:])
    inner = [weights[abs(k)] / total for k in range(-edge, edge + 1)]
    tail = (1 - sum(inner)) / 2
    counts = Counter(max(-edge - 1, min(edge + 1, k)) for k in draws)
    observed = [counts[k] for k in range(-edge - 1, edge + 2)]
    return float(stats.chisquare(observed, [len(draws) * p for p in (tail, *inner, tail)]).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("variance", [Fraction(2), Fraction(20, 3), Fraction(12345, 100)])
def test_a_million_gaussian_draws_fit_their_exact_law(variance: Fraction) -> None:
    """A scale that is 1 percent wrong is caught on each side."""
    draws = discrete_gaussian(variance, 10**6, SeededEntropy())
    assert fit_of_gaussian(draws, variance) > FALSE_ALARM
    for error in (Fraction(99, 100), Fraction(101, 100)):
        assert fit_of_gaussian(draws, variance * error**2) < FALSE_ALARM


@pytest.mark.parametrize("scale_error", CONTROLS)
def test_gaussian_noise_fits_its_exact_law(scale_error: Fraction) -> None:
    variance = Fraction(20, 3)
    draws = discrete_gaussian(variance, N_DRAWS // 4, SeededEntropy())
    assert fit_of_gaussian(draws, variance) > FALSE_ALARM
    assert fit_of_gaussian(draws, variance * scale_error**2) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize(("fit", "rate"), FITS)
def test_refined_noise_fits_the_law_of_the_new_rate(fit: Fit, rate: Fraction, n_steps: int) -> None:
    """Drawn in one refinement and in a chain of three."""
    refined = [last for _, last in refined_draws(rate, n_steps=n_steps)]
    assert fit(refined, rate) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("scale_error", CONTROLS)
@pytest.mark.parametrize(("fit", "rate"), FITS)
def test_refined_noise_of_a_wrong_scale_is_caught(
    fit: Fit, rate: Fraction, scale_error: Fraction
) -> None:
    wrong = rate / scale_error
    refined = [last for _, last in refined_draws(wrong)]
    assert fit(refined, rate) < FALSE_ALARM


def share_is(n_hits: int, n_trials: int, probability: float) -> bool:
    return bool(stats.binomtest(n_hits, n_trials, probability).pvalue > FALSE_ALARM)


@pytest.mark.slow
def test_refined_noise_follows_the_continuous_law_given_the_old_noise() -> None:
    """On the fine lattice, with e2 = 2 e1 and a = abs(old): stay (1/2) E exp(-e1 a), cross 1/4.

    E exp(-e1 a) over a ~ Exp(e1) is 1/2, so 1/4 stay; beyond the old noise goes
    (1/4) E exp(-e1 a) = 1/8; the rest, 3/8, falls between zero and the old noise.
    """
    counts = Counter(place_of(old, new) for old, new in refined_draws(FINE))
    expected = {"stays": 1 / 4, "crosses": 1 / 4, "beyond": 1 / 8, "between": 3 / 8}
    for place, probability in expected.items():
        assert share_is(counts[place], N_DRAWS, probability)
        for scale_error in CONTROLS:
            assert not share_is(counts[place], N_DRAWS, probability * float(scale_error))


def place_of(old: int, new: int) -> str:
    """Where the new noise lies, seen from the old one."""
    if new == old:
        return "stays"
    if old * new < 0:
        return "crosses"
    return "beyond" if abs(new) > abs(old) else "between"


@pytest.mark.slow
def test_what_refinement_takes_away_is_independent_of_what_is_left() -> None:
    """Old = new + Z with Z independent of new: so the old answer tells nothing beyond the new."""
    pairs = refined_draws(FINE)
    new: Draws = np.array([float(FINE * last) for _, last in pairs])
    gap: Draws = np.array([float(FINE * (first - last)) for first, last in pairs])
    assert stats.spearmanr(new, gap).pvalue > FALSE_ALARM
    assert stats.spearmanr(np.abs(new), np.abs(gap)).pvalue > FALSE_ALARM
    # Control: the old noise does depend on what is left of it.
    old = new + gap
    assert stats.spearmanr(new, old).pvalue < FALSE_ALARM
    assert stats.spearmanr(np.abs(new), np.abs(old)).pvalue < FALSE_ALARM


@pytest.mark.slow
def test_a_release_from_the_operating_systems_entropy_has_the_promised_scale() -> None:
    """The real source, unseeded: mean abs(noise) is b = 50 records to `SMALLEST_ERROR`.

    abs(noise) / b is Exp(1) on so fine a lattice, and its sum over draws a gamma variable:
    a right sampler falls outside `SMALLEST_ERROR` with a chance below `FALSE_ALARM`.
    """
    sums = stats.gamma(N_DRAWS)
    low, high = ((1 + sign * float(SMALLEST_ERROR)) * N_DRAWS for sign in (-1, 1))
    assert sums.cdf(low) + sums.sf(high) < FALSE_ALARM
    entropy = SystemEntropy()
    step = Fraction(1, 2**20)
    drawn = release([1000] * N_DRAWS, step=step, alpha_nano=10**9 // 50, entropy=entropy)
    noise = sum(abs(index * step - 1000) for index in drawn)
    assert low < noise / 50 < high
