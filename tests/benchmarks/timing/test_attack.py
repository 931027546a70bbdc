"""The attacker learns what there is to learn, and guesses where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.timing.attack import Times, attack, told, told_by_many

pytestmark = [
    pytest.mark.promise(
        "Time",
        "the attack that measures this learns what shows, and guesses where nothing does",
    ),
]

SLOT_S = 0.005


def noise(seed: int, n: int = 600, steps: int = 2) -> Times:
    """Times that say nothing: a third of a millisecond of chance around 12 ms."""
    chance = np.random.default_rng(seed)
    found: Times = chance.normal(0.012, 3e-4, size=(n, 2, steps))
    return found


def shifted(times: Times, by_s: float) -> Times:
    """The second dataset's last step takes longer."""
    found = times.copy()
    found[:, 1, -1] += by_s
    return found


@pytest.mark.slow
def test_where_nothing_shows_half_of_the_guesses_are_right() -> None:
    """Neither more nor fewer: 12 times 600 pairs, of which 4 standard errors are allowed."""
    found = [told(attack(noise(seed), slot_s=SLOT_S)).share for seed in range(12)]
    assert abs(np.mean(found) - 0.5) < 4 * 0.5 * (2 / (12 * 600)) ** 0.5


@pytest.mark.parametrize("by_s", [0.0015, -0.0015])
def test_a_later_answer_is_told(by_s: float) -> None:
    """Three and a half standard deviations of a difference: 0.9998 of pairs."""
    assert told(attack(shifted(noise(1), by_s), slot_s=SLOT_S)).share > 0.98


def test_a_small_difference_is_told_by_many_questions() -> None:
    """Half of a standard deviation: 0.69 of pairs, and 0.94 of ten questions to each dataset."""
    scores = attack(shifted(noise(2), 2.1e-4), slot_s=SLOT_S)
    assert 0.6 < told(scores).share < 0.78
    assert told_by_many(scores).share > 0.8


def test_times_that_vary_more_are_told() -> None:
    """Twice the spread, the same mean: a comparison of spreads tells 0.70 of pairs."""
    found = noise(3)
    found[:, 1] += found[:, 1] - found[:, 1].mean(axis=0)
    assert told(attack(found)).share > 0.62


def test_what_is_beyond_whole_slots_is_told() -> None:
    """Whole slots at random, and a tenth of a millisecond that only their remainder shows."""
    chance = np.random.default_rng(4)
    found = SLOT_S * chance.integers(2, 200, size=(600, 2, 1)) + 1e-5 * chance.random((600, 2, 1))
    assert told(attack(shifted(found, 1e-4), slot_s=SLOT_S)).share > 0.95
    assert told(attack(shifted(found, 1e-4))).share < 0.6


def test_the_standard_error_allows_for_halves_that_learn_from_each_other() -> None:
    """That of half as many guesses; never 0, also where all were right."""
    assert told(np.array([1.0, -1.0] * 200)).standard_error == pytest.approx(0.5 / 200**0.5)
    assert told(np.ones(400)).standard_error > 0
