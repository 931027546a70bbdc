"""Marks: a number is on one side only where hardly any error could put it on another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.query.asking.marks import Marks

scales = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=12)


@given(scales=scales, confidence=st.sampled_from([0.5, 0.8, 0.95, 0.999]))
def test_an_error_that_would_change_the_side_is_as_rare_as_said(
    scales: list[float], confidence: float
) -> None:
    """The mark is just as far from the estimate as it must be."""
    law = LaplaceSum(np.array(scales))
    half_width = law.half_width(confidence)
    far = _least_distance(half_width, confidence)
    assert law.tail(far) <= 1e-9 * (1 + 1e-6)


def test_a_single_error_needs_all_of_the_distance() -> None:
    """The control: of one Laplace error the bound is met with equality."""
    law = LaplaceSum(np.ones(1))
    far = _least_distance(law.half_width(0.95), 0.95)
    assert law.tail(0.99 * far) > 1e-9


@pytest.mark.parametrize(
    ("estimate", "is_decided"),
    [(-100.0, True), (100.0, True), (0.0, False), (-1.0, False), (1.5, False), (-7.5, False)],
)
def test_what_straddles_a_mark_is_not_decided(estimate: float, is_decided: bool) -> None:
    found = Marks(-1.0, 1.0).decide(estimate - 1.0, estimate + 1.0, confidence=0.95)
    assert found == is_decided


def test_between_two_marks_is_a_side_too() -> None:
    marks = Marks(-100.0, 100.0)
    assert marks.decide(2.0, 4.0, confidence=0.95)
    assert not marks.decide(96.0, 98.0, confidence=0.95)


def _least_distance(half_width: float, confidence: float) -> float:
    """How far a mark at 0 must be, by bisection."""
    low, high = half_width, 100.0 * half_width
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        ends = middle - half_width, middle + half_width
        decides = Marks(0.0, 0.0).decide(*ends, confidence=confidence)
        low, high = (low, middle) if decides else (middle, high)
    return high
