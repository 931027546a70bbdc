"""Several numbers with normal errors: intervals at once, against fresh draws of the errors."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri

from qserver.inference.disagreement.known_sums import Together
from qserver.inference.engine import InferenceEngine
from qserver.inference.posterior.simultaneous import normal_factor
from qserver.query.linear_query import LinearQuery, linear_query
from qserver.query.primitive import primitive
from qserver.query.weights import indicator
from qserver.records.history import GaussianMeasurement
from qserver.records.privacy.noise_law import GAUSSIAN
from tests.query.dense_weights import scaled_weights

pytestmark = pytest.mark.promise(
    "Privacy",
    "intervals of several numbers under Gaussian noise hold at once, or after looking, as often as "
    "they say, and are shorter than by the union bound where errors have much in common",
)
N_BINS, N_FRESH = 8, 40_000
RANGES = [
    linear_query((N_BINS,), [(1, {0: indicator(N_BINS, range(a, b + 1))})])
    for a in range(N_BINS)
    for b in range(a + 1, N_BINS)
]
MULTIPLES = [
    linear_query((N_BINS,), [(1, {0: scaled_weights([1] * a + [2] * (N_BINS - a))})])
    for a in (4, 4, 4)
] + [linear_query((N_BINS,), [(Fraction(1, n), {0: indicator(N_BINS, [0])})]) for n in (1, 2, 3)]


def measured(queries: list[LinearQuery]) -> Together:
    """The errors of some questions, once each bin and the total are measured."""
    engine = InferenceEngine((N_BINS,), law=GAUSSIAN)
    sets = [[i] for i in range(N_BINS)] + [list(range(N_BINS))]
    for number, chosen in enumerate(sets):
        row = primitive(linear_query((N_BINS,), [(1, {0: indicator(N_BINS, chosen)})]))
        rho = 10**6 * (1 + number % 3)
        new = GaussianMeasurement(number, row.row, row.key, rho, Fraction(1, 2**30), 0)
        engine.extend([new])
    rows = [primitive(query) for query in queries]
    estimates = [engine.estimate(row, confidence=0.95) for row in rows]
    found = engine.together([row.row for row in rows], [e for e in estimates if e is not None])
    assert found is not None
    return found


def missed(found: Together, reaches: np.ndarray, *, one_sided: bool) -> float:
    """How often fresh errors are beyond some reach."""
    loads = found.sums.weights * 2**0.5
    fresh = np.random.default_rng(7).standard_normal((N_FRESH, loads.shape[1])) @ loads.T
    return float(((fresh if one_sided else np.abs(fresh)) > reaches).any(axis=1).mean())


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("queries", [RANGES, MULTIPLES], ids=["ranges", "multiples"])
def test_intervals_hold_at_once_as_often_as_they_say(
    queries: list[LinearQuery], confidence: float, *, one_sided: bool
) -> None:
    found, delta = measured(queries), 1 - confidence
    deviations = np.linalg.norm(found.sums.weights, axis=1) * 2**0.5
    tail = delta / len(queries) / (1 if one_sided else 2)
    by_union = -ndtri(tail) * deviations
    factor = normal_factor(found, by_union, missed=delta, one_sided=one_sided)
    often = missed(found, factor * by_union, one_sided=one_sided)
    error = 4 * math.sqrt(delta * confidence / N_FRESH)
    assert factor < 0.95
    assert often <= delta + error
    # Not much less often, either: nearer ends would not hold.
    assert missed(found, 0.9 * factor * by_union, one_sided=one_sided) > delta + error


def test_numbers_with_nothing_in_common_keep_the_union_bound() -> None:
    bins = [linear_query((2 * N_BINS,), [(1, {0: indicator(2 * N_BINS, [i])})]) for i in range(6)]
    engine = InferenceEngine((2 * N_BINS,), law=GAUSSIAN)
    rows = [primitive(query) for query in bins]
    for number, row in enumerate(rows):
        new = GaussianMeasurement(number, row.row, row.key, 10**6, Fraction(1, 2**30), 0)
        engine.extend([new])
    estimates = [engine.estimate(row, confidence=0.95) for row in rows]
    found = engine.together([row.row for row in rows], [e for e in estimates if e is not None])
    assert found is not None
    assert normal_factor(found, np.full(6, 60.0), missed=0.05) == 1.0


def test_many_numbers_of_one_error_are_as_far_as_one() -> None:
    """By chi-square, whose law is exact: no union of them, and no draws."""
    found = measured(MULTIPLES[3:])
    reaches = np.linalg.norm(found.sums.weights, axis=1) * 2**0.5 * 5.0
    factor = normal_factor(found, reaches, missed=0.05)
    assert 5.0 * factor == pytest.approx(-ndtri(0.025), rel=1e-6)


def test_weights_that_were_kept_are_told_together_by_the_law_of_their_errors() -> None:
    """A count as it was drawn first, and the sum that is now known by it and two others."""
    engine = InferenceEngine((2,), law=GAUSSIAN)
    rows = [
        primitive(linear_query((2,), [(1, {0: indicator(2, chosen)})])) for chosen in ([0], [1])
    ]
    both = primitive(linear_query((2,), [(1, {})]))
    for number, row in enumerate([*rows, both]):
        new = GaussianMeasurement(number, row.row, row.key, 10**6, Fraction(1, 2**30), 0)
        engine.extend([new])
    first, now = engine.alone(rows[0], 0, confidence=0.95), engine.estimate(both, confidence=0.95)
    assert now is not None
    found = engine.together([rows[0].row, both.row], [first, now])
    assert found is not None
    assert not found.is_posterior
    # Of least variance: two thirds of the sum itself, and a third of both counts.
    variance = 1.0 / (2 * 10**6 / 1e9)
    loads = found.sums.weights * 2**0.5
    expected = np.array([[1.0, 1.0 / 3.0], [1.0 / 3.0, 2.0 / 3.0]]) * variance
    np.testing.assert_allclose(loads @ loads.T, expected, rtol=1e-9)
    least = engine.together([both.row], [now])
    assert least is not None
    assert least.is_posterior
