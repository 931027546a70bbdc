"""Posteriors cut at one end or at both, against quadrature in many digits and against grids."""

from __future__ import annotations

import math
from collections.abc import Iterator

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.inference.disagreement.law_by_cheapest_method import law_given
from qserver.inference.disagreement.table_of_law import TableOfLaw
from qserver.inference.estimate import Posterior
from qserver.inference.posterior.disagreeing_rows import GivenPosterior
from qserver.inference.posterior.method_and_prior import ContradictedPriorError, CutPosterior
from tests.inference.disagreement.references import TWO_HALVES, cdf_by_grid, repeated
from tests.sweeps import share

SCALES = [1.0, 0.5, 0.2]
ESTIMATES = [-20.0, -1.0, 0.0, 0.4, 3.0, 20.0]
CUTS = [(0.0, math.inf), (0.0, 5.0), (-math.inf, 2.0), (1.0, 1.25)]
EACH_ESTIMATE = pytest.mark.parametrize("estimate", ESTIMATES)
EACH_CUT = pytest.mark.parametrize("cut", CUTS, ids=str)


def _density(x: mpmath.mpf) -> mpmath.mpf:
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


class Quadrature:
    """The cut law by quadrature of the density."""

    def __init__(self, estimate: float, cut: tuple[float, float]) -> None:
        self.e = mpmath.mpf(estimate)
        self.low = mpmath.mpf(max(cut[0], min(estimate, cut[1]) - 80))
        self.high = mpmath.mpf(min(cut[1], max(estimate, cut[0]) + 80))
        self.total = self._area(self.low, self.high, 0)

    def _area(self, a: mpmath.mpf, b: mpmath.mpf, power: int) -> mpmath.mpf:
        # Scaled, as far from the estimate the plain density would lose its digits.
        nearest = min(max(self.e, self.low), self.high)
        boost = mpmath.exp(abs(nearest - self.e))
        marks = (self.e, nearest + 1, nearest + 5, nearest - 1, nearest - 5)
        kinks = sorted({a, b} | {x for x in marks if a < x < b})
        return mpmath.quad(lambda q: q**power * boost * _density(q - self.e), kinks)

    def mass(self, low: float, high: float) -> float:
        """P(low <= q <= high)."""
        a, b = max(mpmath.mpf(low), self.low), min(mpmath.mpf(high), self.high)
        return float(self._area(a, b, 0) / self.total) if a < b else 0.0

    @property
    def mean(self) -> float:
        """Mean of the cut law."""
        return float(self._area(self.low, self.high, 1) / self.total)


def _cut(estimate: float, cut: tuple[float, float]) -> CutPosterior:
    return CutPosterior(Posterior(estimate, np.array(SCALES), 0.0), *cut)


@pytest.fixture(autouse=True)
def enough_digits() -> Iterator[None]:
    """Quadrature in 20 digits, which is enough for all that is compared."""
    with mpmath.workdps(20):
        yield


@EACH_ESTIMATE
@EACH_CUT
def test_probabilities_and_the_mean_match_quadrature(
    estimate: float, cut: tuple[float, float]
) -> None:
    posterior, exact = _cut(estimate, cut), Quadrature(estimate, cut)
    for low, high in ((0.0, 0.5), (0.3, 2.0), (1.0, 8.0), (2.5, math.inf), (25.0, 31.0)):
        expected = exact.mass(low, high)
        assert_allclose(posterior.probability_between(low, high), expected, rtol=1e-6, atol=1e-9)
    assert posterior.probability_at_least(0.3) == posterior.probability_between(0.3, math.inf)
    assert_allclose(posterior.estimate, exact.mean, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@EACH_ESTIMATE
@EACH_CUT
@pytest.mark.parametrize("confidence", share([0.95, 0.5, 0.999], 1))
def test_an_interval_holds_its_confidence_and_is_shortest(
    estimate: float, cut: tuple[float, float], confidence: float
) -> None:
    """An interval of a unimodal law is shortest when its ends have equal density, or are cuts."""
    posterior, exact = _cut(estimate, cut), Quadrature(estimate, cut)
    ends = posterior.interval(confidence)
    assert cut[0] <= ends.low < ends.high <= cut[1]
    assert confidence <= exact.mass(ends.low, ends.high) <= confidence + 1e-5
    # No other interval of a length a thousandth less holds as much.
    length = 0.999 * (ends.high - ends.low)
    starts = np.linspace(max(cut[0], ends.low - length), min(cut[1], ends.high) - length, 9)
    assert all(exact.mass(low, low + length) <= confidence for low in starts)
    attained = posterior.confidence_of(0.5 * (ends.high - ends.low))
    assert attained == pytest.approx(confidence, abs=2e-5)


def test_a_cut_far_away_changes_nothing() -> None:
    whole = Posterior(1e4, np.array(SCALES), 0.0)
    posterior, without = CutPosterior(whole, 0.0, math.inf), whole.interval(0.95)
    ends = posterior.interval(0.95)
    assert_allclose([ends.low, ends.high], [without.low, without.high], atol=0.03)
    assert_allclose(ends.high - ends.low, without.high - without.low, rtol=3e-4)
    assert posterior.estimate == pytest.approx(1e4, abs=1e-4)


def test_allowances_lengthen_an_interval_but_not_past_a_cut() -> None:
    whole = Posterior(1.0, np.array([10.0]), 0.25)
    plain = CutPosterior(Posterior(1.0, np.array([10.0]), 0.0), 0.0, math.inf).interval(0.9)
    ends = CutPosterior(whole, 0.0, math.inf).interval(0.9)
    assert ends.low == 0.0
    assert ends.high == pytest.approx(plain.high + 0.25)
    assert CutPosterior(whole, 0.0, math.inf).confidence_of(0.2) == 0.0


def test_a_prior_that_leaves_next_to_nothing_is_refused() -> None:
    whole = Posterior(-100.0, np.array([3.0]), 0.0)
    assert whole.probability_at_least(0.0) < 1e-12
    with pytest.raises(ContradictedPriorError, match="`prior` must leave a probability") as caught:
        CutPosterior(whole, 0.0, math.inf)
    assert caught.value.name == "prior"
    with pytest.raises(ContradictedPriorError):
        CutPosterior(whole, -90.0, -90.0)
    # A part of 1e-11 is enough.
    whole = Posterior(-3.0 * math.log(0.5e11), np.array([3.0]), 0.0)
    high = CutPosterior(whole, 0.0, math.inf).interval(0.95).high
    assert high == pytest.approx(3.0 * math.log(20.0), rel=1e-3)


def _disagreeing() -> tuple[TableOfLaw, np.ndarray, np.ndarray]:
    """Two halves and the whole: the law, and its distribution function by a grid."""
    errors = np.array([2.0, -1.0, -1.5])
    given = TWO_HALVES.known(errors).reduced()
    places = np.linspace(-12.0, 12.0, 961)
    return law_given(given), places, cdf_by_grid(TWO_HALVES, errors, places + given.shift)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [(0.0, math.inf), (-1.0, 1.5), (-math.inf, 0.5)], ids=str)
@pytest.mark.parametrize("unit", [1.0, -2.0])
def test_a_law_of_disagreements_is_cut_as_a_grid_is(cut: tuple[float, float], unit: float) -> None:
    """The posterior of q = middle - unit * W, all of whose masses the grid knows within 1e-3."""
    law, places, below = _disagreeing()
    posterior = CutPosterior(GivenPosterior(1.0, law, 0.0, unit, 0.0), *cut)
    values, masses = 1.0 - unit * 0.5 * (places[1:] + places[:-1]), np.diff(below)
    masses = np.where((values > cut[0]) & (values < cut[1]), masses, 0.0)
    masses /= masses.sum()
    assert 0.0 < posterior.error < 0.05
    for low, high in ((-1.0, 0.5), (0.0, 2.0), (0.7, 9.0)):
        expected = masses[(values > low) & (values < high)].sum()
        found = posterior.probability_between(low, high)
        assert found == pytest.approx(expected, abs=2.0 * posterior.error + 0.02)
    assert posterior.estimate == pytest.approx(float(masses @ values), abs=0.03)
    ends = posterior.interval(0.9)
    held = masses[(values >= ends.low) & (values <= ends.high)].sum()
    assert 0.9 - 0.015 <= held <= 0.97
    assert posterior.confidence_of(0.5 * (ends.high - ends.low)) == pytest.approx(0.9, abs=2e-3)


def test_a_law_known_piece_by_piece_is_cut_to_many_digits() -> None:
    """One count three times: the density is a product of exponentials on a line."""
    design, errors = repeated(3), np.array([0.4, -2.0, 1.1])
    given = design.known(errors).reduced()
    law, shift = law_given(given), float(given.shift)
    posterior = CutPosterior(GivenPosterior(0.0, law, shift, 1.0, 0.0), 0.0, math.inf)
    estimate = float(design.weights @ errors)
    q = np.linspace(0.0, 40.0, 400_001)
    logs = -(np.abs(q[:, None] - errors + estimate) / design.scales).sum(axis=1)
    density = np.exp(logs - logs.max())
    density /= density.sum()
    assert posterior.error < 1e-3
    for place in (0.3, 1.0, 3.0):
        found = posterior.probability_between(0.0, place)
        assert found == pytest.approx(float(density[q <= place].sum()), abs=1e-3)
    assert posterior.estimate == pytest.approx(float(density @ q), abs=2e-3)
