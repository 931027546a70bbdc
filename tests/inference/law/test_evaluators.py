"""One contract for every way of computing the distribution of a Laplace sum."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qserver.errors import RequirementError
from qserver.inference.law.contour import Contour
from qserver.inference.law.evaluator import CertifiedProbability, Evaluator
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.law.paper_methods import MonteCarlo
from tests.reference.convolution import Convolution

SEED = 20240611
N_DRAWS = 100_000
EVALUATORS: dict[str, Callable[[], Evaluator]] = {
    "contour": Contour,
    "convolution": Convolution,
    "monte_carlo": lambda: MonteCarlo(np.random.default_rng(SEED), n_draws=N_DRAWS),
}
SCALES = {
    "one": [2.0],
    "pair": [1.0, 0.25],
    "equal": [1.5] * 6,
    "zeros": [0.0, 1.0, 0.0, 0.3],
    "spread": [1.0, 1e-3, 1e-6],
    "many": list(np.linspace(0.1, 1.0, 25)),
}
HEIGHTS = (0.0, 0.1, 0.7, 1.5, 4.0)


@pytest.fixture(params=EVALUATORS)
def evaluator(request: pytest.FixtureRequest) -> Evaluator:
    return EVALUATORS[request.param]()


@pytest.fixture(params=SCALES)
def law(request: pytest.FixtureRequest, evaluator: Evaluator) -> LaplaceSum:
    return LaplaceSum(SCALES[request.param], evaluator=evaluator)


def characteristic_within(scales: list[float], half_width: float) -> float:
    """P(abs(W) <= h) by folding W on a circle of 2B = 100 sd: 20,000 cosine terms.

    Good to 1e-6 or better for every law above: folding adds P(abs(W) > 99 sd) and cutting
    leaves out terms that fall like k^-3 at least.
    """
    c = np.array(scales)
    bound = 50.0 * math.sqrt(2.0 * float(c @ c))
    t = math.pi * np.arange(1, 20_001) / bound
    phi = 1.0 / np.prod(1.0 + np.square(np.outer(c, t)), axis=0)
    return half_width / bound + float((2.0 * phi * np.sin(t * half_width) / (t * bound)).sum())


def test_the_reported_error_covers_an_independent_value(law: LaplaceSum) -> None:
    for height in HEIGHTS:
        h = height * math.sqrt(law.variance)
        certified = law.certify(h)
        expected = characteristic_within(law.scales.tolist(), h)
        assert abs(certified.probability - expected) <= certified.error + 1e-6
        assert certified.error <= 0.02
        assert certified.lower <= expected + 1e-6


@pytest.mark.slow
def test_within_and_tail_are_complements(law: LaplaceSum) -> None:
    for height in HEIGHTS:
        h = height * math.sqrt(law.variance)
        assert_allclose(law.within(h) + law.tail(h), 1.0, rtol=0, atol=1e-12)
        assert_allclose(law.within(h), law.certify(h).probability, rtol=0, atol=1e-12)


def test_probability_grows_with_the_half_width(law: LaplaceSum) -> None:
    deviation = math.sqrt(law.variance)
    values = [law.within(height * deviation) for height in np.linspace(0.05, 4.0, 12)]
    assert all(b > a for a, b in itertools.pairwise(values))
    assert all(0.0 <= value <= 1.0 for value in values)


def test_half_width_reaches_the_confidence(law: LaplaceSum) -> None:
    for confidence in (0.3, 0.8, 0.95, 0.999):
        h = law.half_width(confidence)
        slack = 1.0 / N_DRAWS if isinstance(law.evaluator, MonteCarlo) else 1e-4
        assert_allclose(law.within(h), confidence, rtol=0, atol=slack)
        same = law.half_width_of_tail(math.log1p(-confidence))
        assert_allclose(same, h, rtol=1e-3)


def test_half_width_stays_near_the_default_evaluator(law: LaplaceSum) -> None:
    exact = LaplaceSum(law.scales)
    for confidence in (0.5, 0.95):
        h = law.half_width(confidence)
        allowed = law.certify(h).error + 1e-9
        assert abs(exact.within(h) - confidence) <= allowed


def test_cdf_is_symmetric(law: LaplaceSum) -> None:
    for height in HEIGHTS[1:]:
        x = height * math.sqrt(law.variance)
        assert_allclose(law.cdf(x) + law.cdf(-x), 1.0, rtol=0, atol=1e-12)


def test_density_and_gradient_do_not_depend_on_the_evaluator(law: LaplaceSum) -> None:
    exact = LaplaceSum(law.scales)
    assert law.density(0.3) == exact.density(0.3)
    assert_allclose(
        law.half_width_gradient(0.9).gradient, exact.half_width_gradient(0.9).gradient, rtol=0
    )


def test_no_scale_needs_no_evaluator(evaluator: Evaluator) -> None:
    law = LaplaceSum([], evaluator=evaluator)
    assert law.certify(0.0) == CertifiedProbability(probability=1.0, error=0.0)


def test_an_infinite_half_width_holds_everything(law: LaplaceSum) -> None:
    assert law.within(math.inf) == 1.0
    assert law.certify(math.inf).probability == 1.0
    assert law.tail(math.inf) == 0.0


def test_common_factors_change_no_probability(evaluator: Evaluator) -> None:
    for factor in (1e-9, 1e9):
        law = LaplaceSum([factor, 0.5 * factor], evaluator=evaluator)
        expected = LaplaceSum([1.0, 0.5]).within(1.3)
        assert abs(law.within(1.3 * factor) - expected) <= law.certify(1.3 * factor).error


@pytest.mark.parametrize(
    ("probability", "error", "confidence"),
    [(-0.1, 0.0, 1.0), (1.1, 0.0, 1.0), (math.nan, 0.0, 1.0), (0.5, -1.0, 1.0),
     (0.5, math.nan, 1.0), (0.5, 0.0, 0.0), (0.5, 0.0, 1.5)],
)  # fmt: skip
def test_a_certified_probability_is_checked(
    probability: float, error: float, confidence: float
) -> None:
    with pytest.raises(RequirementError, match="must"):
        CertifiedProbability(probability=probability, error=error, confidence=confidence)
