"""Laplace sums of scales that are any number of decades apart, and numbers that are none."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from qserver.errors import EvaluationError, RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.contour import ContourLaw
from qserver.inference.law.evaluator import (
    CertifiedProbability,
    as_finite,
    as_log_probability,
    as_probability,
    as_upper_bound,
)
from qserver.inference.law.joint import JointErrors
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.law.moment_function import Moments
from tests.reference.convolution import Convolution
from tests.sweeps import examples

SCALES: dict[str, list[float]] = {
    "tiny_equals": [1.0] + [1e-12] * 32,
    "weights_of_a_query": [1e6] + [1e-9] * 40,
    "limit": [1e30, 1.0],
    "limit_both_ways": [1e15] + [1.0] * 3 + [1e-15] * 33,
    "clusters": [1.0] * 5 + [1e-20] * 40,
    "small_chunks": [float(c) for c in np.geomspace(1e-40, 1.0, 70)],
    "decades": [10.0**-k for k in range(0, 300, 7)],
    "ends_of_the_range": [1e150, 1e-150],
    "nearly_nothing": [1e-300, 1e-310],
    "one_above_the_least": [1.0, 2.0**-59, 2.0**-61, 2.0**-61],
}
APART = 25
"""Digits by which equal scales are taken apart, for partial fractions."""


@dataclass(frozen=True)
class Exact:
    """The law in many digits by partial fractions; equal scales are taken 1e-25 apart.

    That multiplies probabilities by 1 +- 1e-23 at most, as the density of the rest allows.
    """

    scales: list[float]

    @property
    def digits(self) -> int:
        return 160 + APART * max(Counter(self.scales).values())

    def log_tail(self, half_width: float) -> float:
        with mpmath.workdps(self.digits):
            tail = self._tail(half_width)
        return float(mpmath.log(tail))

    def within(self, half_width: float) -> float:
        with mpmath.workdps(self.digits):
            return float(1 - self._tail(half_width))

    def _tail(self, half_width: float) -> mpmath.mpf:
        total = mpmath.mpf(0)
        for c, weight in self._terms:
            # What is left out is far below the digits, times any weight.
            if half_width / float(c) < 6.0 * self.digits:
                total += weight * mpmath.exp(-mpmath.mpf(half_width) / c)
        return total

    @cached_property
    def _terms(self) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
        """Distinct scales with their weights; called within the digits."""
        seen: Counter[float] = Counter()
        distinct = []
        for c in self.scales:
            distinct.append(mpmath.mpf(c) * (1 + seen[c] * mpmath.mpf(10) ** -APART))
            seen[c] += 1
        squares = [c * c for c in distinct]
        return [
            (c, 1 / mpmath.fprod(1 - s / squares[i] for j, s in enumerate(squares) if j != i))
            for i, c in enumerate(distinct)
        ]


def heights(law: LaplaceSum) -> list[float]:
    """From 1e-14 standard deviations to 700 times the largest scale."""
    largest = float(law.scales.max())
    deviation = largest * math.sqrt(2.0 * float(np.square(law.scales / largest).sum()))
    parts = [p * deviation for p in (1e-14, 1e-6, 0.1, 0.3, 1.0)]
    return [*parts, 30.0 * largest, 700.0 * largest]


@pytest.mark.parametrize("name", SCALES)
def test_probabilities_are_those_of_many_digits(name: str) -> None:
    law, exact = LaplaceSum(SCALES[name]), Exact(SCALES[name])
    for h in heights(law):
        expected = exact.within(h)
        assert_allclose(law.within(h), expected, rtol=1e-12)
        assert_allclose(law.log_tail(h), exact.log_tail(h), rtol=1e-12)
        certified = law.certify(h)
        assert certified.error <= 1e-12
        assert abs(certified.probability - expected) <= certified.error


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("confidence", [1e-9, 0.1, 0.5, 0.95, 1.0 - 1e-9])
def test_half_widths_are_those_of_many_digits(name: str, confidence: float) -> None:
    law, exact = LaplaceSum(SCALES[name]), Exact(SCALES[name])
    h = law.half_width(confidence)
    if confidence <= 0.5:
        assert_allclose(exact.within(h), confidence, rtol=1e-12)
    else:
        assert_allclose(exact.log_tail(h), math.log1p(-confidence), rtol=1e-11)
    found = law.half_width_gradient(confidence)
    unit = float(law.scales.max())
    assert_allclose(float(found.gradient @ (law.scales / unit)), h / unit, rtol=1e-9, atol=1e-15)


def test_the_first_example_is_the_known_number() -> None:
    law = LaplaceSum([1.0] + [1e-12] * 32)
    assert_allclose(law.within(0.3), 0.25918177931828212, rtol=1e-14)
    assert_allclose(law.half_width(0.1), 0.10536051565782631, rtol=1e-14)


@settings(max_examples=examples(40))
@given(
    st.lists(st.floats(-3.0, 0.0), min_size=1, max_size=5, unique=True),
    st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=5, unique=True),
    st.floats(1e-6, 0.5),
    st.floats(-8.0, 2.0),
)
def test_small_scales_change_probabilities_by_no_more_than_their_sum_over_the_largest(
    logs: list[float], shares: list[float], part: float, log_height: float
) -> None:
    """The reason why scales that sum to 2^-60 of the largest may be left out."""
    rest = [10.0 ** (x - max(logs)) for x in logs]
    small = [part * s / sum(shares) for s in shares]
    if len({*rest, *small}) < len(rest) + len(small):
        return
    h = 10.0**log_height
    without, full = Exact(rest), Exact([*rest, *small])
    ratios = [full.within(h) / without.within(h)]
    ratios.append(math.exp(full.log_tail(h) - without.log_tail(h)))
    for ratio in ratios:
        assert (1.0 - part) * (1.0 - 1e-9) <= ratio <= (1.0 + 1e-9) / (1.0 - part)


@settings(max_examples=examples(30))
@given(
    n=st.integers(0, 37).map(lambda k: round(5000 ** (k / 37))),
    kind=st.sampled_from(["spread", "dominated", "clusters", "halves"]),
    span=st.sampled_from([0.0, 3.0, 12.0, 30.0, 60.0, 300.0]),
    top=st.floats(0.0, 150.0),
    log_height=st.floats(-14.0, 3.0),
    confidence=st.floats(1e-9, 1.0 - 1e-9),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_scales_have_a_law_that_agrees_with_itself(
    n: int, kind: str, span: float, top: float, log_height: float, confidence: float, seed: int
) -> None:
    law = LaplaceSum(10.0 ** np.minimum(150.0, top + scales_of(kind, n, span, seed)))
    widths = sorted([*heights(law), 10.0**log_height * float(law.scales.max())])
    within = [law.within(h) for h in widths]
    assert within[0] >= 0.0
    assert within[-1] <= 1.0
    assert (np.diff(within) >= -2e-14).all()
    assert (np.diff([law.log_tail(h) for h in widths]) <= 1e-12).all()
    for h, probability in zip(widths, within, strict=True):
        certified = law.certify(h)
        assert certified.error <= 1e-10
        assert abs(certified.probability - probability) <= certified.error + 1e-13
        assert_allclose(law.tail(h), 1.0 - probability, rtol=0, atol=1e-12)
        assert law.density(h) >= 0.0
    found = law.half_width_gradient(confidence)
    assert found.half_width == law.half_width(confidence)
    assert_allclose(law.within(found.half_width), confidence, rtol=1e-10)
    assert (found.gradient >= -1e-12).all()


def scales_of(kind: str, n: int, span: float, seed: int) -> FloatArray:
    """log10 of n scales, the largest at 0, over `span` decades."""
    generator = np.random.default_rng(seed)
    logs = {
        "spread": -span * generator.random(n),
        "dominated": np.where(np.arange(n) == 0, 0.0, -span),
        "clusters": -span * generator.random(4)[generator.integers(0, 4, n)],
        "halves": np.where(generator.random(n) < 0.5, 0.0, -span) - generator.random(n),
    }[kind]
    return np.asarray(logs - logs.max())


def test_the_convolution_takes_them_too() -> None:
    for scales in SCALES.values():
        law = LaplaceSum(scales, evaluator=Convolution())
        h = heights(law)[4]
        certified = law.certify(h)
        assert abs(certified.probability - LaplaceSum(scales).within(h)) <= certified.error


@dataclass(frozen=True)
class Nothing:
    """An evaluator and law for which every number comes out as `value`."""

    value: float

    def prepare(self, _: FloatArray, /) -> Nothing:
        return self

    def within(self, _: float, /) -> float:
        return self.value

    log_tail = half_width = half_width_of_tail = within

    def certify(self, _: float, /) -> CertifiedProbability:
        return CertifiedProbability(as_probability(self.value), 0.0)


@pytest.mark.parametrize("value", [math.nan, 1.1, 2e9, math.inf])
def test_no_law_gives_a_probability_that_is_none(value: float) -> None:
    law = LaplaceSum([1.0, 2.0], evaluator=Nothing(value))
    for method in (law.within, law.certify, law.log_tail, law.tail, law.cdf):
        with pytest.raises(EvaluationError):
            method(0.5)


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
def test_no_law_gives_a_half_width_that_is_none(value: float) -> None:
    law = LaplaceSum([1.0, 2.0], evaluator=Nothing(value))
    with pytest.raises(EvaluationError):
        law.half_width(0.5)
    with pytest.raises(EvaluationError):
        law.half_width_of_tail(-0.5)


def test_a_contour_of_broken_sums_gives_no_number() -> None:
    """Power sums that overflowed: what once was cut to a probability of 1."""
    law = ContourLaw.of(np.append(np.full(40, 0.01), np.full(32, 1.0)))
    broken = replace(law.moments, levels=np.full_like(law.moments.levels, np.nan))
    law = replace(law, moments=broken)
    with np.errstate(invalid="ignore"):
        expect_no_number(law)


def expect_no_number(law: ContourLaw) -> None:
    for h in (0.5, 12.0):
        with pytest.raises(EvaluationError):
            law.within(h)
        with pytest.raises(EvaluationError):
            law.certify(h)
        for value in (law.density(h), law.half_width_of_tail(-1e-9)):
            with pytest.raises(EvaluationError):
                as_finite(value)
    with pytest.raises(EvaluationError):
        law.log_tail(12.0)
    with pytest.raises(EvaluationError):
        law.half_width_of_tail(-30.0)


def test_a_joint_bound_of_broken_laws_is_none() -> None:
    errors = JointErrors([[1.0, 0.5], [0.5, 1.0]], [1.0, 1.0], [4.0, 4.0])
    broken = LaplaceSum([1.0], evaluator=Nothing(math.nan))
    object.__setattr__(errors, "_laws", (broken, broken))
    for bound in (errors.tails, errors.product_bound):
        with pytest.raises(EvaluationError):
            bound()


def test_numbers_pass_and_only_numbers() -> None:
    assert as_probability(1.0 + 1e-12) == as_upper_bound(7.0) == 1.0
    assert as_probability(-1e-12) == as_log_probability(1e-12) == as_finite(0.0) == 0.0
    assert as_log_probability(-math.inf) == -math.inf
    for cut in (as_probability, as_upper_bound, as_log_probability, as_finite):
        with pytest.raises(EvaluationError, match="could not be evaluated"):
            cut(math.nan)


def test_scales_without_size_or_far_too_large_are_refused() -> None:
    for scale in (math.nan, math.inf, -1.0, 1.1e150):
        with pytest.raises(RequirementError, match="1e150"):
            LaplaceSum([1.0, scale])


def test_power_sums_are_those_of_fractions_in_the_unit_of_their_chunk() -> None:
    scales = np.geomspace(1e-12, 1.0, 150)
    moments = Moments.of(scales)
    for chunk, start in enumerate(moments.starts):
        with mpmath.workdps(60):
            ratios = [mpmath.mpf(c) / moments.squares[start] for c in moments.squares[start:]]
            sums = [float(mpmath.fsum(r**m for r in ratios) / m) for m in range(1, 15)]
        assert_allclose(moments.power_sums(chunk), sums, rtol=1e-13)
