"""Quick bounds are never wrong, and settle what is clear."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qserver.errors import RequirementError
from qserver.inference.law.laplace_sum import LaplaceSum, Verdict
from tests.sweeps import examples


@settings(max_examples=examples(150))
@given(
    st.lists(st.floats(min_value=1e-6, max_value=1.0), min_size=1, max_size=40),
    st.floats(min_value=0.0, max_value=40.0),
    st.floats(min_value=1e-6, max_value=1.0 - 1e-6),
)
def test_a_verdict_agrees_with_the_probability(
    scales: list[float], height: float, confidence: float
) -> None:
    law = LaplaceSum(scales)
    h = height * max(scales)
    verdict = law.certainly_within(h, confidence=confidence)
    if verdict is Verdict.YES:
        assert law.within(h) >= confidence
    if verdict is Verdict.NO:
        assert law.within(h) < confidence


def test_clear_cases_are_settled() -> None:
    law = LaplaceSum([1.0, 0.5])
    deviation = math.sqrt(law.variance)
    assert law.certainly_within(20.0 * deviation, confidence=0.95) is Verdict.YES
    assert law.certainly_within(math.inf, confidence=0.95) is Verdict.YES
    # The largest scale alone leaves exp(-2.9) > 0.05 outside.
    assert law.certainly_within(2.9, confidence=0.95) is Verdict.NO
    assert law.certainly_within(law.half_width(0.95), confidence=0.95) is Verdict.UNKNOWN


def test_no_noise_is_always_within() -> None:
    assert LaplaceSum([]).certainly_within(0.0, confidence=0.999) is Verdict.YES


def test_one_scale_at_its_own_half_width_is_not_refused() -> None:
    """Rounding must not turn an exact equality into a NO."""
    for confidence in np.linspace(0.01, 0.99, 50):
        law = LaplaceSum([3.0])
        h = law.half_width(float(confidence))
        assert law.certainly_within(h, confidence=float(confidence)) is not Verdict.NO


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(RequirementError, match="`half_width`"):
        LaplaceSum([1.0]).certainly_within(-1.0, confidence=0.5)
    with pytest.raises(RequirementError, match="`confidence`"):
        LaplaceSum([1.0]).certainly_within(1.0, confidence=1.0)
