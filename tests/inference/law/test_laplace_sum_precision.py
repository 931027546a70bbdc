"""Laplace sums against partial fractions in many digits, far out, far in and widely spread."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.inference.law.contour import ContourLaw
from qserver.inference.law.laplace_sum import LaplaceSum
from tests.reference.convolution import Convolution
from tests.sweeps import examples

DIGITS = 120


def exact_tail(scales: list[float], half_width: float) -> mpmath.mpf:
    """P(abs(W) > h) by partial fractions, for distinct positive scales, in the caller's digits."""
    squares = [mpmath.mpf(c) ** 2 for c in scales]
    total = mpmath.mpf(0)
    for i, c in enumerate(scales):
        weight = mpmath.mpf(1)
        for j, square in enumerate(squares):
            if j != i:
                weight /= 1 - square / squares[i]
        total += weight * mpmath.exp(-mpmath.mpf(half_width) / mpmath.mpf(c))
    return total


DISTINCT = (
    st.lists(st.floats(min_value=-8.0, max_value=0.0), min_size=2, max_size=7)
    .map(lambda logs: [10.0**x for x in logs])
    .filter(lambda scales: len(set(scales)) == len(scales))
)
FACTORS = st.sampled_from([1e-9, 1.0, 1e9])


@settings(max_examples=examples(150))
@given(DISTINCT, FACTORS, st.floats(min_value=-9.0, max_value=2.5))
def test_spread_scales_match_partial_fractions(
    scales: list[float], factor: float, log_height: float
) -> None:
    scales = [c * factor for c in scales]
    assume(len(set(scales)) == len(scales))
    law = LaplaceSum(scales)
    h = 10.0**log_height * math.sqrt(law.variance)
    with mpmath.workdps(DIGITS):
        tail = exact_tail(scales, h)
        within, log_tail = float(1 - tail), float(mpmath.log(tail))
    assert_allclose(law.within(h), within, rtol=1e-12, atol=0)
    assert_allclose(law.log_tail(h), log_tail, rtol=1e-12, atol=1e-300)
    certified = law.certify(h)
    assert certified.error <= 1e-10
    assert abs(certified.probability - within) <= certified.error


@settings(max_examples=examples(60))
@given(DISTINCT, st.floats(min_value=1e-6, max_value=1.0 - 1e-6))
def test_half_width_inverts_partial_fractions(scales: list[float], confidence: float) -> None:
    law = LaplaceSum(scales)
    h = law.half_width(confidence)
    with mpmath.workdps(DIGITS):
        reached = float((1 - exact_tail(scales, h)) / mpmath.mpf(confidence))
    assert_allclose(reached, 1.0, rtol=1e-12)


@settings(max_examples=examples(60))
@given(DISTINCT, st.floats(min_value=-3000.0, max_value=-1e-9))
def test_half_width_of_tail_reaches_any_depth(scales: list[float], log_tail: float) -> None:
    h = LaplaceSum(scales).half_width_of_tail(log_tail)
    with mpmath.workdps(DIGITS):
        assert_allclose(float(mpmath.log(exact_tail(scales, h))), log_tail, rtol=1e-11)


@pytest.mark.parametrize("depth", [12.0, 100.0, 300.0])
def test_deep_tails_keep_relative_accuracy(depth: float) -> None:
    scales = [1.0, 0.999, 0.5, 0.1]
    h = depth * math.log(10.0)
    with mpmath.workdps(DIGITS):
        expected = float(exact_tail(scales, h))
    assert expected < 10.0 ** -(depth - 6.0)
    assert_allclose(LaplaceSum(scales).tail(h), expected, rtol=1e-11)


@settings(max_examples=examples(40))
@given(
    st.lists(st.floats(min_value=0.05, max_value=1.0), min_size=2, max_size=24),
    st.floats(min_value=0.05, max_value=4.0),
)
def test_repeated_scales_match_the_convolution(scales: list[float], height: float) -> None:
    """Clustered and equal scales, where partial fractions break down."""
    h = height * math.sqrt(2.0 * sum(c * c for c in scales))
    coarse = LaplaceSum(scales, evaluator=Convolution(points_per_length=200)).certify(h)
    assert abs(LaplaceSum(scales).within(h) - coarse.probability) <= coarse.error
    # Measured error of the lattice: second order in the step, far below its bound.
    assert_allclose(LaplaceSum(scales).within(h), coarse.probability, rtol=0, atol=5e-4)


@settings(max_examples=examples(60))
@given(
    st.integers(min_value=2, max_value=3000),
    st.sampled_from(["lognormal", "dominated", "geometric", "cluster"]),
    st.floats(min_value=-5.0, max_value=1.4),
    st.integers(min_value=0, max_value=2**32 - 1),
)
def test_long_sums_are_certified_and_agree_with_their_certificate(
    count: int, kind: str, log_height: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    scales = {
        "lognormal": lambda: generator.lognormal(0.0, 2.0, count),
        "dominated": lambda: np.append(np.full(count, 10.0 ** generator.uniform(-3, 0)), 1.0),
        "geometric": lambda: np.geomspace(10.0 ** generator.uniform(-8, -0.1), 1.0, count),
        "cluster": lambda: generator.choice([1.0, 0.5, 0.05, 0.01], count),
    }[kind]()
    law = ContourLaw.of(scales)
    h = 10.0**log_height * law.deviation * law.unit
    certified = law.certify(h)
    assert certified.error <= 1e-10
    assert_allclose(law.within(h), certified.probability, rtol=0, atol=1e-12)


def test_log_tail_is_consistent_across_the_switch_to_central_sums() -> None:
    law = ContourLaw.of(np.geomspace(0.01, 1.0, 40))
    edge = 0.25 * law.deviation
    below, above = law.within(edge * (1.0 - 1e-9)), law.within(edge * (1.0 + 1e-9))
    assert_allclose(above - below, 4e-9 * edge * law.density(edge), rtol=1e-5)
