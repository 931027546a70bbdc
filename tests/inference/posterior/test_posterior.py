"""Estimates, intervals and probabilities from one posterior."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import RequirementError
from qserver.inference.estimate import Posterior, weighted_sum
from tests.sweeps import examples

ONE = Posterior(100.0, np.array([10.0]), 0.5)
"""One Laplace variable: everything has a closed form."""


def test_the_interval_is_the_laplace_quantile_and_the_allowance_rounded_outward():
    half_width = 10 * math.log(20) + 0.5
    interval = ONE.interval(0.95)
    assert interval.low == pytest.approx(100 - half_width, rel=1e-8)
    assert interval.high == pytest.approx(100 + half_width, rel=1e-8)
    assert interval.low < 100 - half_width
    assert interval.high > 100 + half_width


def test_the_confidence_of_a_half_width_leaves_out_the_allowance_and_rounds_down():
    exact = 1 - math.exp(-2.0)
    assert ONE.confidence_of(20.5) == pytest.approx(exact, abs=1e-12)
    assert ONE.confidence_of(20.5) <= exact
    assert ONE.confidence_of(0.5) == 0.0
    assert ONE.confidence_of(0.1) == 0.0


@pytest.mark.parametrize("half_width", [1e-3, 0.7, 20.5, 1e3, math.inf])
def test_a_confidence_is_never_more_than_that_of_the_law_and_nearly_it(half_width: float) -> None:
    """Half-widths that differ by rounding alone share a certificate, of the shortest."""
    found = Posterior(0.0, np.array([10.0, 3.0, 3.0]), 0.0)
    exact = found.error.certify(half_width).lower
    assert found.confidence_of(half_width) <= exact
    assert found.confidence_of(half_width) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("confidence", [0.2, 0.8, 0.95, 0.999])
def test_the_half_width_at_a_confidence_attains_it(confidence):
    posterior = Posterior(0.0, np.array([1.0, 0.4, 2.0]), 0.01)
    attained = posterior.confidence_of(posterior.half_width(confidence))
    assert confidence <= attained <= confidence + 1e-8


def test_probabilities_of_events_are_those_of_the_continuous_law():
    assert ONE.probability_at_least(100.0) == pytest.approx(0.5)
    assert ONE.probability_at_least(120.0) == pytest.approx(0.5 * math.exp(-2), rel=1e-12)
    assert ONE.probability_at_least(80.0) == pytest.approx(1 - 0.5 * math.exp(-2), rel=1e-12)
    across = 1 - 0.5 * math.exp(-1) - 0.5 * math.exp(-2)
    assert ONE.probability_between(90, 120) == pytest.approx(across, rel=1e-12)
    beyond = 0.5 * (math.exp(-20) - math.exp(-30))
    assert ONE.probability_between(300, 400) == pytest.approx(beyond, rel=1e-9)
    assert ONE.probability_between(-200, -100) == pytest.approx(beyond, rel=1e-9)
    assert ONE.probability_between(120, 90) == 0.0


@given(st.floats(-500, 500), st.floats(0, 300))
@settings(max_examples=examples(50))
def test_probabilities_of_an_interval_and_its_two_sides_add_up(low, length):
    posterior = Posterior(3.0, np.array([20.0, 5.0, 1.0]), 0.0)
    inside = posterior.probability_between(low, low + length)
    above = posterior.probability_at_least(low + length)
    below = 1 - posterior.probability_at_least(low)
    assert inside + above + below == pytest.approx(1.0, abs=1e-10)


def test_a_public_value_is_known_exactly():
    public = Posterior(7.0, np.array([]), 0.0)
    assert public.half_width(0.999) == 0.0
    assert public.confidence_of(0.0) == 1.0
    assert public.probability_at_least(7.0) == 1.0
    assert public.probability_at_least(7.1) == 0.0


@pytest.mark.parametrize("multiplier", [Fraction(3), Fraction(-1, 3), Fraction(10**12, 7)])
def test_scaling_scales_the_interval_outward(multiplier):
    scaled = ONE.scaled(multiplier)
    factor = abs(float(multiplier))
    interval, before = scaled.interval(0.9), ONE.interval(0.9)
    ends = sorted(Fraction(e) * multiplier for e in (before.low, before.high))
    assert interval.low <= ends[0]
    assert interval.high >= ends[1]
    assert scaled.half_width(0.9) == pytest.approx(factor * ONE.half_width(0.9), rel=1e-12)


@given(st.integers(0, 10**9))
@settings(max_examples=examples(60))
def test_a_weighted_sum_is_off_by_no_more_than_its_bound(seed):
    rng = random.Random(seed)
    n = rng.randint(0, 30)
    weights = np.array([rng.uniform(-1, 1) * 10 ** rng.randint(-9, 9) for _ in range(n)])
    values = [Fraction(rng.randrange(-(2**80), 2**80), 2**30) for _ in range(n)]
    exact = sum((Fraction(float(w)) * v for w, v in zip(weights, values, strict=True)), Fraction(0))
    found = weighted_sum(weights, values)
    assert abs(Fraction(found.value) - exact) <= Fraction(found.error)


def test_a_whole_answer_of_one_row_is_its_estimate():
    assert weighted_sum(np.array([1.0]), [Fraction(48842)]).value == 48842.0


@pytest.mark.parametrize(
    ("estimate", "allowance", "name"),
    [(math.nan, 0.0, "estimate"), (0.0, -1.0, "allowance"), (0.0, math.inf, "allowance")],
)
def test_half_valid_posteriors_are_refused(estimate, allowance, name):
    with pytest.raises(RequirementError, match=name):
        Posterior(estimate, np.array([1.0]), allowance)
