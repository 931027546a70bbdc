"""Requirements: ranges of length and confidence, and which of two asks for less."""

from __future__ import annotations

from decimal import Decimal

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import RequirementError
from qserver.query.requirement import MIN_DELTA, Requirement, check_confidence, check_length

lengths = st.floats(1e-9, 1e15)
confidences = st.floats(0, 1 - MIN_DELTA, exclude_min=True)
requirements = st.builds(Requirement, lengths, confidences)


@given(confidences)
def test_log_inverse_delta_is_exact_to_the_last_digits(confidence: float) -> None:
    """mpmath with 400 digits; near 0 a plain ln(1 / (1 - c)) would lose them all."""
    with mpmath.workdps(400):
        expected = float(-mpmath.log(1 - mpmath.mpf(confidence)))
    found = Requirement(1, confidence).log_inverse_delta
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@given(lengths)
def test_half_width_is_half_the_length(length: float) -> None:
    assert Requirement(length, 0.5).half_width * 2 == length


@given(requirements, requirements, requirements)
def test_looser_is_a_partial_order(a: Requirement, b: Requirement, c: Requirement) -> None:
    assert a.is_looser_than(a)
    if a.is_looser_than(b) and b.is_looser_than(a):
        assert a == b
    if a.is_looser_than(b) and b.is_looser_than(c):
        assert a.is_looser_than(c)


def test_looser_means_longer_and_less_sure() -> None:
    asked = Requirement(100, 0.95)
    assert Requirement(101, 0.95).is_looser_than(asked)
    assert Requirement(100, 0.9).is_looser_than(asked)
    assert not Requirement(99, 0.9).is_looser_than(asked)
    assert not Requirement(200, 0.99).is_looser_than(asked)


@pytest.mark.parametrize("length", [1e-9, 1e15, 1, 10**15, np.float64(3.5)])
def test_lengths_in_range_are_accepted(length: float) -> None:
    assert Requirement(length, 0.5).length == length


@pytest.mark.parametrize(
    "length",
    [
        0,
        -1.0,
        9.9e-10,
        1.1e15,
        10**15 + 1,
        10**400,
        10**5000,
        float("nan"),
        float("inf"),
        True,
        "100",
        Decimal(100),
        None,
        [100],
    ],
    ids=lambda v: f"{type(v).__name__}",
)
def test_lengths_out_of_range_are_refused_by_name(length: float) -> None:
    with pytest.raises(RequirementError, match=r"^`length` must be a number in \[1e-9, 1e15\]"):
        Requirement(length, 0.5)
    with pytest.raises(RequirementError) as caught:
        check_length(length)
    assert caught.value.name == "length"


@pytest.mark.parametrize("confidence", [5e-324, 0.5, 0.999999999, 1 - 1e-9])
def test_confidences_in_range_are_accepted(confidence: float) -> None:
    assert Requirement(1, confidence).confidence == confidence


@pytest.mark.parametrize(
    "confidence",
    [0, 0.0, -0.5, 1, 1.0, 1 - 1e-10, 95, 10**400, float("nan"), float("inf"), True, "0.95", None],
    ids=lambda v: f"{type(v).__name__}",
)
def test_confidences_out_of_range_are_refused_by_name(confidence: float) -> None:
    with pytest.raises(RequirementError, match=r"^`confidence` must be a number in \(0, 0\.9+\]"):
        Requirement(1, confidence)
    with pytest.raises(RequirementError) as caught:
        check_confidence(confidence)
    assert caught.value.name == "confidence"
