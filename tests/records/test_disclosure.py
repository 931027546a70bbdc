"""The disclosure guard against exact posteriors of an observer who knows all but one count."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import ConfigError
from qserver.records.claim import MAX_CAP, MIN_CAP, central_share, guard_nano, known_at_most
from qserver.records.privacy.noise_law import GAUSSIAN

pytestmark = [
    pytest.mark.promise(
        "Guard rails",
        "nobody with a flat prior knows a count better than the cap; the bound is attained",
    ),
]

LOSSES = (Fraction(1, 2), Fraction(1), Fraction(5, 2))
REACH = 60


def posterior_of_the_best_guess(parts: list[tuple[float, int]], start: int) -> float:
    """P(the likeliest count | answers) under a flat prior on the integers from `start`.

    Args:
        parts: per measured row that counts the cell, alpha and the noise that was drawn; the true
            count is 0, so the answer less what is known of other cells is the noise.
    """
    likelihood = [
        math.exp(-sum(alpha * abs(noise - count) for alpha, noise in parts))
        for count in range(start, REACH + 1)
    ]
    return max(likelihood) / math.fsum(likelihood)


@given(
    st.lists(st.tuples(st.sampled_from(LOSSES), st.integers(-3, 3)), min_size=1, max_size=4),
)
def test_nobody_knows_a_count_better_than_the_bound(parts: list[tuple[Fraction, int]]) -> None:
    """All other cells known, every count equally likely: rows of any scale and any noise."""
    loss = sum(alpha for alpha, _ in parts)
    found = posterior_of_the_best_guess([(float(a), n) for a, n in parts], -REACH)
    assert found <= known_at_most(int(loss * 10**9)) + 1e-12


def test_the_bound_is_reached_when_all_answers_agree() -> None:
    """So no smaller bound holds: a guard with a tenth more room would let the cap be passed."""
    for loss in LOSSES:
        found = posterior_of_the_best_guess([(float(loss), 0)], -REACH)
        assert found == pytest.approx(known_at_most(int(loss * 10**9)), rel=1e-9)
        assert found > known_at_most(int(loss * 10**9 * 9 / 10))


@given(
    st.lists(
        st.tuples(st.sampled_from(LOSSES), st.integers(-2, 3), st.integers(-9, 9)),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 5),
)
def test_nobody_knows_a_span_better_than_the_bound_under_gaussian_noise(
    parts: list[tuple[Fraction, int, int]], n: int
) -> None:
    """Rows that weigh the moving records differently, with any noise; n neighbouring counts."""
    rho = sum(float(one) * weight**2 for one, weight, _ in parts)
    counts = range(-4 * REACH, 4 * REACH + 1)
    logs = [-sum(float(one) * (noise - w * v) ** 2 for one, w, noise in parts) for v in counts]
    likelihood = [math.exp(log - max(logs)) for log in logs]
    spans = (sum(likelihood[i : i + n]) for i in range(len(likelihood) - n))
    if rho:
        assert max(spans) / math.fsum(likelihood) <= central_share(rho, n) + 1e-12


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("rho", [0.01, 0.3, 1.0, 4.0])
def test_the_bound_is_reached_under_gaussian_noise_too(rho: float, n: int) -> None:
    likelihood = [math.exp(-rho * (v - (n - 1) / 2) ** 2) for v in range(-REACH, REACH + n)]
    found = sum(likelihood[REACH : REACH + n]) / math.fsum(likelihood)
    assert found <= central_share(rho, n) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("cap", [1e-4, 0.1, 0.5, 0.9, MAX_CAP])
def test_the_guard_is_the_greatest_rho_under_the_cap(cap: float) -> None:
    allowed = guard_nano(cap, GAUSSIAN)
    assert known_at_most(allowed, GAUSSIAN) <= cap < known_at_most(allowed + 1, GAUSSIAN)


@pytest.mark.limit("1 - exp(-loss)")
def test_who_knows_that_counts_are_not_negative_can_know_a_zero_better() -> None:
    """What the docs say of it: 1 - exp(-loss) at a count of zero."""
    for loss in LOSSES:
        found = posterior_of_the_best_guess([(float(loss), -1)], 0)
        assert found == pytest.approx(1 - math.exp(-loss), rel=1e-9)
        assert found > known_at_most(int(loss * 10**9))


@given(st.floats(MIN_CAP, MAX_CAP))
def test_the_guard_is_the_cap_turned_into_loss_and_rounded_down(cap: float) -> None:
    with mpmath.workdps(50):
        exact = 2 * mpmath.atanh(mpmath.mpf(cap)) * 10**9
        assert guard_nano(cap) == int(mpmath.floor(exact))
    assert known_at_most(guard_nano(cap)) <= cap * (1 + 1e-12)


@pytest.mark.parametrize("cap", [0.0, -0.5, 1.0, 2.0, float("nan"), float("inf"), 1e-7])
def test_a_cap_that_is_no_probability_is_refused(cap: float) -> None:
    with pytest.raises(ConfigError, match="`disclosure_cap`"):
        guard_nano(cap)
