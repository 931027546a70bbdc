"""Intervals and probabilities from a table of a law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from qserver.inference.disagreement.table_of_law import TableOfLaw

PLACES = np.linspace(-8.0, 8.0, 401)


def _normal(error: float, *, is_exact_in_tails: bool) -> TableOfLaw:
    below, above = norm.cdf(PLACES), norm.sf(PLACES)
    errors = np.full(len(PLACES), error)
    return TableOfLaw(PLACES, below, above, errors, is_exact_in_tails=is_exact_in_tails)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_shortest_interval_of_a_symmetric_law_is_centred(confidence: float) -> None:
    ends = _normal(0.0, is_exact_in_tails=True).shortest(confidence)
    half = norm.isf((1.0 - confidence) / 2.0)
    assert [ends.low, ends.high] == pytest.approx([-half, half], rel=2e-3, abs=2e-3)


def test_a_stated_error_widens_the_interval_by_no_less() -> None:
    """With an error of .001 at each end, .95 needs the interval of .952."""
    ends = _normal(0.001, is_exact_in_tails=False).shortest(0.95)
    half = norm.isf(0.024)
    assert ends.high - ends.low >= 2.0 * half * (1.0 - 1e-4)


@pytest.mark.parametrize("tail", [1e-3, 1e-6, 1e-9])
def test_far_tails_are_bounded_from_nearer_ones(tail: float) -> None:
    """An error of .001 says nothing of a tail of 1e-6; that the law is log-concave does."""
    ends = _normal(0.001, is_exact_in_tails=False).shortest(1.0 - tail)
    assert norm.sf(ends.high) + norm.cdf(ends.low) <= tail
    assert ends.high - ends.low < 12.0 * norm.isf(tail / 2.0)


def test_the_confidence_of_a_length_is_rounded_down() -> None:
    law = _normal(0.001, is_exact_in_tails=False)
    for half in (0.5, 1.0, 2.0, 3.0):
        exact = 1.0 - 2.0 * norm.sf(half)
        assert exact - 0.006 < law.confidence_of(2.0 * half) <= exact


def test_probabilities_keep_their_digits_in_the_nearer_tail() -> None:
    law = _normal(0.0, is_exact_in_tails=True)
    assert law.between(5.0, 6.0) == pytest.approx(norm.sf(5.0) - norm.sf(6.0), rel=1e-2)
    assert law.between(-6.0, -5.0) == pytest.approx(norm.sf(5.0) - norm.sf(6.0), rel=1e-2)
    assert law.cdf(-5.0) == pytest.approx(norm.cdf(-5.0), rel=1e-2)
    assert law.survival(-5.0) == pytest.approx(norm.sf(-5.0))


@pytest.mark.parametrize("n", [9, 21, 81])
def test_between_places_the_stated_error_holds_too(n: int) -> None:
    """Few places: probabilities between them are off by what is stated, and intervals hold."""
    places = np.linspace(-8.0, 8.0, n)
    law = TableOfLaw(places, norm.cdf(places), norm.sf(places), np.zeros(n), is_exact_in_tails=True)
    off = [abs(law.cdf(x) - norm.cdf(x)) for x in np.linspace(-4.0, 4.0, 997)]
    assert 0.0 < max(off) <= law.largest_error
    for confidence in (0.5, 0.95):
        ends = law.shortest(confidence)
        assert norm.cdf(ends.high) - norm.cdf(ends.low) >= confidence - 1e-12
