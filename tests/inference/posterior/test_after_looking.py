"""Intervals for numbers that were chosen by looking: the rule, and how often it holds.

Every count of successes is compared with the binomial law at the stated confidence: fewer would be
seen by chance once in a million runs, and the seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from qserver.errors import InputError, RequirementError
from qserver.inference.estimate import Posterior
from qserver.inference.posterior.after_looking import TableReading, ends_of, reading, table_readings
from qserver.query.asking.after_looking import RULES, Rule, Selection
from tests.sweeps import examples

pytestmark = [
    pytest.mark.promise(
        "Privacy",
        "the stated interval of the largest, the least, the first k or any of many numbers holds "
        "as often as stated, also after the largest was refined; that of one number alone does "
        "not",
    ),
]

Array = npt.NDArray[np.float64]

CONFIDENCE = 0.95
M = 64
N_DRAWS = 20_000
FALSE_ALARM = 1e-6
ENOUGH = int(binom.ppf(FALSE_ALARM, N_DRAWS, CONFIDENCE))
"""The least number of successes that the stated confidence lets pass."""
ROUNDING = 1e-7
"""Ends of intervals of about 100 at most are found by search."""

TRUTHS: dict[str, Array] = {
    "equal": np.zeros(M),
    "stairs": np.arange(float(M)) * 0.3,
    "one above": np.eye(M)[0] * 4.0,
    "two groups": np.repeat([0.0, 3.0], M // 2),
    "drawn": np.random.default_rng(11).exponential(2.0, M),
}


def law_of(estimate: float = 0.0, scale: float = 1.0) -> Posterior:
    return Posterior(estimate, np.array([scale]), 0.0)


def distances(selection: Selection, scale: float = 1.0) -> tuple[float, float]:
    """How far below and above its estimate the reading of a chosen number reaches."""
    found = reading(law_of(scale=scale), selection, confidence=CONFIDENCE)
    return -found.low, found.high


def held(truths: Array, noisy: Array, chosen: NDArray[np.intp], reach: tuple[float, float]) -> int:
    """In how many draws all chosen numbers lie within reach; chosen has shape (draws, k)."""
    seen = np.take_along_axis(noisy, chosen, axis=1)
    true = np.take_along_axis(np.broadcast_to(truths, noisy.shape), chosen, axis=1)
    inside = (true >= seen - reach[0]) & (true <= seen + reach[1])
    return int(inside.all(axis=1).sum())


def drawn(truths: Array, *, seed: int, scale: float = 1.0) -> Array:
    return truths + np.random.default_rng(seed).laplace(0.0, scale, (N_DRAWS, len(truths)))


def largest(noisy: Array, k: int = 1) -> NDArray[np.intp]:
    return np.argsort(noisy, axis=1)[:, -k:]


@pytest.mark.parametrize("truths", TRUTHS.values(), ids=TRUTHS)
@pytest.mark.parametrize("k", [1, 5])
def test_the_largest_of_many_hold_as_often_as_stated(truths, k):
    noisy = drawn(truths, seed=1)
    reach = distances(Selection(M, "largest", k))
    assert held(truths, noisy, largest(noisy, k), reach) >= ENOUGH


@pytest.mark.limit("under 0.25 of runs at 0.95")
def test_the_interval_of_one_number_alone_fails_for_the_largest():
    """What the rule is needed for: of 64 equal counts the largest is covered once in five times."""
    truths = TRUTHS["equal"]
    noisy = drawn(truths, seed=1)
    rate = held(truths, noisy, largest(noisy), distances(Selection(1))) / N_DRAWS
    assert rate < 0.25
    assert CONFIDENCE == 0.95


def test_the_rule_for_one_fails_for_the_five_largest_together():
    truths = np.repeat([0.0, 50.0], [M - 5, 5])
    noisy = drawn(truths, seed=2)
    assert held(truths, noisy, largest(noisy, 5), distances(Selection(M))) < ENOUGH


@pytest.mark.parametrize("truths", TRUTHS.values(), ids=TRUTHS)
@pytest.mark.parametrize("k", [1, 5])
def test_the_least_of_many_hold_as_often_as_stated(truths, k):
    noisy = drawn(truths, seed=3)
    reach = distances(Selection(M, "least", k))
    assert held(truths, noisy, np.argsort(noisy, axis=1)[:, :k], reach) >= ENOUGH


def test_any_choice_holds_even_if_made_by_the_error_itself_and_the_other_rules_do_not():
    truths = TRUTHS["drawn"]
    noisy = drawn(truths, seed=4)
    worst = np.argmax(np.abs(noisy - truths), axis=1)[:, None]
    assert held(truths, noisy, worst, distances(Selection(M, "any"))) >= ENOUGH
    for rule in ("largest", "least"):
        assert held(truths, noisy, worst, distances(Selection(M, rule))) < ENOUGH


def test_the_largest_holds_if_all_errors_have_a_part_in_common():
    """No independence is needed as long as the laws are the same."""
    rng, truths = np.random.default_rng(5), TRUTHS["stairs"]
    noisy = drawn(truths, seed=6) + 2.0 * rng.laplace(size=(N_DRAWS, 1))
    law = Posterior(0.0, np.array([1.0, 2.0]), 0.0)
    found = reading(law, Selection(M), confidence=CONFIDENCE)
    assert held(truths, noisy, largest(noisy), (-found.low, found.high)) >= ENOUGH


@pytest.mark.parametrize("truths", TRUTHS.values(), ids=TRUTHS)
@pytest.mark.parametrize("part", [0.5, 0.25, 0.1])
def test_a_largest_that_was_refined_holds_and_alone_it_does_not(truths, part):
    """Refined independent cells: the choice was made by the newest answer with noise added."""
    rng = np.random.default_rng(7)
    refined = rng.laplace(0.0, part, (N_DRAWS, M))
    # Lap(1) is Lap(part) plus this, which is 0 with probability part^2.
    added = np.where(rng.random((N_DRAWS, M)) < part**2, 0.0, rng.laplace(size=(N_DRAWS, M)))
    chosen = largest(truths + refined + added)
    assert held(truths, truths + refined, chosen, distances(Selection(M), part)) >= ENOUGH
    if part == 0.5 and not truths.any():
        alone = held(truths, truths + refined, chosen, distances(Selection(1), part))
        assert alone < ENOUGH


def table_of(scales: Array) -> list[TableReading]:
    """The readings of a table of zeros."""
    laws = [law_of(scale=s) for s in scales]
    ends = [ends_of(law, confidence=CONFIDENCE, m=len(laws)) for law in laws]
    return table_readings(ends)


def table_coverage(
    truths: Array, scales: Array, pick: Callable[[Array], Array], side: str, seed: int
) -> int:
    noise = np.random.default_rng(seed).laplace(size=(N_DRAWS, len(truths))) * scales
    noisy = truths + noise
    found = table_of(scales)
    lows = np.array([getattr(r, side).low for r in found])
    highs = np.array([getattr(r, side).high for r in found])
    i, draws = pick(noisy), np.arange(N_DRAWS)
    error = truths[i] - noisy[draws, i]
    return int(((error >= lows[i]) & (error <= highs[i])).sum())


@pytest.mark.parametrize("truths", TRUTHS.values(), ids=TRUTHS)
def test_a_table_of_unequal_noise_holds_at_its_largest_and_its_least(truths):
    scales = np.geomspace(0.2, 5.0, M)
    for seed, order in enumerate((scales, scales[::-1])):
        top = table_coverage(truths, order, lambda y: y.argmax(axis=1), "largest", seed)
        low = table_coverage(truths, order, lambda y: y.argmin(axis=1), "least", seed)
        assert min(top, low) >= ENOUGH


def test_all_numbers_of_a_table_hold_at_once():
    scales = np.geomspace(0.2, 5.0, M)
    found = table_of(scales)
    error = -np.random.default_rng(8).laplace(size=(N_DRAWS, M)) * scales
    inside = (error >= [r.at_once.low for r in found]) & (error <= [r.at_once.high for r in found])
    assert ENOUGH <= inside.all(axis=1).sum() <= binom.ppf(1 - FALSE_ALARM, N_DRAWS, 0.952)


def test_the_lengths_are_those_of_the_closed_form():
    """One Laplace variable: P(e > h) is exp(-h) / 2."""
    low, high = distances(Selection(M))
    assert (low, high) == pytest.approx((math.log(M / 0.05), math.log(20)), rel=1e-8)
    assert (low + high) / 2 / math.log(20) == pytest.approx(1.69, abs=0.005)
    assert sum(distances(Selection(M, "any"))) / 2 / math.log(20) == pytest.approx(2.39, abs=0.005)


CHOICES = st.builds(
    lambda m, rule, first: Selection(m, rule, 1 if rule == "any" else min(first, m)),
    st.integers(1, 10**9),
    st.sampled_from(RULES),
    st.integers(1, 10**9),
)


@given(CHOICES, st.floats(0.01, 1 - 1e-9))
@settings(max_examples=examples(60))
def test_a_reading_lies_between_the_interval_alone_and_that_of_any_choice(selection, confidence):
    law = Posterior(3.0, np.array([1.0, 0.4]), 0.01)
    found = reading(law, selection, confidence=confidence)
    alone = reading(law, Selection(1), confidence=confidence)
    widest = reading(law, Selection(selection.m, "any"), confidence=confidence)
    assert alone == law.interval(confidence)
    assert widest.low <= found.low <= alone.low + ROUNDING
    assert widest.high >= found.high >= alone.high - ROUNDING


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_the_least_mirrors_the_largest_and_more_looked_at_is_longer(m, first):
    law, first = law_of(), min(m, first)
    top = reading(law, Selection(m, "largest", first), confidence=0.9)
    low = reading(law, Selection(m, "least", first), confidence=0.9)
    assert (top.low, top.high) == (-low.high, -low.low)
    more = reading(law, Selection(m + 1, "largest", first), confidence=0.9)
    assert more.low <= top.low


@pytest.mark.parametrize(
    ("m", "rule", "first", "field"),
    [
        (0, "largest", 1, "m"),
        (-3, "any", 1, "m"),
        (2.0, "any", 1, "m"),
        (True, "any", 1, "m"),
        (10**10, "any", 1, "m"),
        (4, "top", 1, "rule"),
        (4, "largest", 5, "first"),
        (4, "least", 0, "first"),
        (4, "any", 2, "first"),
    ],
)
def test_a_selection_that_means_nothing_names_its_field(m, rule: Rule, first, field):
    with pytest.raises(InputError) as refused:
        Selection(m, rule, first)
    assert refused.value.name == field


@pytest.mark.parametrize("probability", [0.0, 0.5, -0.1, math.nan])
def test_a_one_sided_end_needs_less_than_half(probability):
    with pytest.raises(RequirementError):
        law_of().low_at(probability)
