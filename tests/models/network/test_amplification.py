"""Amplification by a secret sample, against mpmath and against exact laws of small mechanisms."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import InputError
from qserver.models.network.learning.amplification import amplified_nano, nominal_nano
from qserver.records.charge import NANO

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "a secret sample costs no more than its charge, and nothing of it is kept",
    ),
]

TENTH = Fraction(1, 10)
RATES = st.fractions(min_value=Fraction(1, 1000), max_value=1, max_denominator=1000)
NANOS = st.integers(min_value=1, max_value=10**6 * NANO)


def exactly(nominal: int, rate: Fraction) -> mpmath.mpf:
    """ln(1 + rate (e^x - 1)) in nano-epsilon, to 120 digits."""
    share = mpmath.mpf(rate.numerator) / rate.denominator
    return NANO * mpmath.log1p(share * mpmath.expm1(mpmath.mpf(nominal) / NANO))


@given(NANOS, RATES)
def test_the_charge_is_the_exact_one_rounded_up(nominal: int, rate: Fraction) -> None:
    """mpmath, 120 digits."""
    with mpmath.workdps(120):
        exact = exactly(nominal, rate)
        # At rate 1 the exact charge is whole; room for the last digits may then cost one more.
        assert exact <= amplified_nano(nominal, rate=rate) < exact + 1 + mpmath.mpf(10) ** -30


@given(NANOS, RATES)
def test_the_nominal_price_is_the_largest_that_fits(charged: int, rate: Fraction) -> None:
    """mpmath, 120 digits: one nano-epsilon more would cost more than was said."""
    nominal = nominal_nano(charged, rate=rate)
    with mpmath.workdps(120):
        assert exactly(nominal, rate) <= charged
        assert exactly(nominal + 2, rate) > charged


# A rate a little above e^-1: at 100 epsilon the exact charge is 10^-21 above a whole number.
JUST_ABOVE = Fraction(367_879_441_171_442_321_595_523_770_162, 10**30)


def test_what_is_hardly_above_a_whole_number_is_rounded_up_all_the_same() -> None:
    """mpmath, 120 digits: rounding to fewer digits on the way would take the excess away."""
    whole = 99 * NANO
    with mpmath.workdps(120):
        exact = exactly(100 * NANO, JUST_ABOVE)
        assert whole < exact < whole + mpmath.mpf(10) ** -18
    assert amplified_nano(100 * NANO, rate=JUST_ABOVE) == whole + 1
    assert nominal_nano(whole, rate=JUST_ABOVE) == 100 * NANO - 1


def test_parts_of_one_sample_would_be_charged_too_little_one_by_one() -> None:
    """Two tables at one each: the exact law of both together loses more than two charges."""
    x = mpmath.mpf(1)
    apart = 2 * amplified_nano(NANO, rate=TENTH)
    # A record that is counted in two tables of the sample, against none: both high.
    together = mpmath.log1p((mpmath.exp(2 * x) - 1) / 10) * NANO
    assert together > 1.5 * apart
    assert together <= amplified_nano(2 * NANO, rate=TENTH) < together + 1


@pytest.mark.parametrize(("nano", "rate"), [(-1, TENTH), (1, Fraction(0)), (1, Fraction(11, 10))])
def test_what_is_out_of_range_is_refused(nano: int, rate: Fraction) -> None:
    for function in (amplified_nano, nominal_nano):
        with pytest.raises(InputError):
            function(nano, rate=rate)
    assert amplified_nano(0, rate=TENTH) == nominal_nano(0, rate=TENTH) == 0


def histogram_law(counts: tuple[int, ...], x: mpmath.mpf, released: tuple[int, ...]) -> mpmath.mpf:
    """P(released) of discrete Laplace noise of rate x on a Poisson sample of these counts."""
    found = mpmath.mpf(1)
    decay, beta = mpmath.exp(-x), mpmath.mpf(1) / 10
    for n, y in zip(counts, released, strict=True):
        cell = mpmath.mpf(0)
        for kept in range(n + 1):
            sampled = mpmath.binomial(n, kept) * beta**kept * (1 - beta) ** (n - kept)
            cell += sampled * (1 - decay) / (1 + decay) * decay ** abs(y - kept)
        found *= cell
    return found


def greatest_loss(one: tuple[int, ...], two: tuple[int, ...], x: mpmath.mpf) -> mpmath.mpf:
    """The greatest log-ratio of the two laws; beyond the counts it no longer moves."""
    ends = range(-1, max(*one, *two) + 2)
    return max(
        abs(mpmath.log(histogram_law(one, x, y) / histogram_law(two, x, y)))
        for y in product(ends, repeat=len(one))
    )


@pytest.mark.parametrize("nominal", [NANO // 2, 2 * NANO])
@pytest.mark.parametrize("others", [(0, 0), (2, 1)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_law_of_a_histogram_of_a_sample_loses_more_than_the_charge(
    nominal: int, others: tuple[int, int], k: int
) -> None:
    """By the exact laws: a person with k records leaves, or k others come in their place.

    Where nobody else is there the first reaches the charge, so that nothing less would do.
    """
    x, charge = mpmath.mpf(nominal) / NANO, k * amplified_nano(nominal, rate=TENTH)
    left = (others[0] + k, others[1])
    loss = greatest_loss(left, others, x) * NANO
    assert loss <= charge
    if others == (0, 0):
        assert loss == pytest.approx(charge, abs=k + 1e-3)
    replaced = (others[0], others[1] + k)
    both = greatest_loss(left, replaced, x) * NANO
    assert charge < both <= 2 * charge
