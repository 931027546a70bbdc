"""The two algorithms of the source paper against the exact law, within what they state."""

from __future__ import annotations

import numpy as np
import pytest

from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.inference.posterior.method_and_prior import Computed, computed
from qserver.query.asking.method_and_prior import LEAST_DRAWS, Reading

ONE, PAIR, UNEQUAL = [6.68], [3.0, 3.0], [10.0, 1.0, 0.1]
MANY = [1.0 + 0.37 * (i % 7) for i in range(80)]
SUMS = pytest.mark.parametrize("scales", [ONE, PAIR, UNEQUAL, MANY], ids=len)
READINGS = pytest.mark.parametrize(
    "reading",
    [
        Reading("convolution"),
        Reading("convolution", error=1e-3),
        Reading("convolution", step=1.0),
        Reading("monte-carlo"),
        Reading("monte-carlo", draws=LEAST_DRAWS),
    ],
    ids=str,
)


def _computed(scales: list[float], reading: Reading) -> Computed:
    return computed(np.array(scales), reading)


@SUMS
@READINGS
def test_probabilities_are_those_of_the_exact_law_within_the_stated_error(
    scales: list[float], reading: Reading
) -> None:
    found, exact = _computed(scales, reading), LaplaceSum(scales)
    assert 0.0 < found.error < 0.05
    places = np.linspace(-4.0, 4.0, 41) * exact.variance**0.5
    for low, high in zip(places[:-7], places[7:], strict=True):
        expected = exact.cdf(high) - exact.cdf(low)
        assert abs(found.law.between(low, high) - expected) <= found.error


@SUMS
@READINGS
def test_intervals_are_centred_and_hold_what_they_say(
    scales: list[float], reading: Reading
) -> None:
    found, exact = _computed(scales, reading), LaplaceSum(scales)
    for confidence in (0.5, 0.9, 0.95, 0.999, 1 - 1e-7):
        ends = found.law.shortest(confidence)
        assert ends.low == -ends.high
        assert exact.within(ends.high) >= confidence - 1e-12
    # At a usual confidence it is no longer than one for twice the error more.
    ends = found.law.shortest(0.9)
    assert exact.within(ends.high) <= 0.9 + 2.0 * found.error


@SUMS
def test_a_smaller_error_is_reached_where_it_is_asked_for(scales: list[float]) -> None:
    assert _computed(scales, Reading("convolution")).error <= 4e-3
    assert _computed(scales, Reading("convolution", error=1e-3)).error <= 1e-3


@pytest.mark.parametrize("scales", [ONE, PAIR, UNEQUAL], ids=len)
def test_as_many_draws_are_taken_as_the_error_needs(scales: list[float]) -> None:
    found = _computed(scales, Reading("monte-carlo"))
    assert found.error <= 4e-3
    rougher = _computed(scales, Reading("monte-carlo", error=1e-2))
    assert rougher.error <= 1e-2
    assert (found.draws or 0) > 5 * (rougher.draws or 0) > 0


def test_the_same_law_has_the_same_draws_and_another_law_others() -> None:
    reading = Reading("monte-carlo", draws=20_000)
    first = _computed(PAIR, reading).law.places
    from qserver.inference.posterior import method_and_prior

    method_and_prior._by_draws.cache_clear()
    assert np.array_equal(first, _computed(PAIR, reading).law.places)
    assert not np.array_equal(first, _computed([3.0, 3.0000001], reading).law.places)


def test_a_step_that_would_take_too_long_or_say_too_little_is_changed_and_told() -> None:
    assert _computed(PAIR, Reading("convolution", step=0.5)).step == 0.5
    fine = _computed(PAIR, Reading("convolution", step=1e-9))
    assert 1e-4 < (fine.step or 0.0) < 1e-2
    coarse = _computed(PAIR, Reading("convolution", step=1e6))
    assert (coarse.step or 0.0) < 10.0
    assert coarse.error < 0.05


def test_fewer_draws_are_taken_for_a_sum_of_very_many() -> None:
    found = _computed([1.0] * 1500, Reading("monte-carlo", draws=500_000))
    assert (found.draws or 0) < 20_000
    assert LaplaceSum([1.0] * 1500).within(found.law.shortest(0.9).high) >= 0.9
