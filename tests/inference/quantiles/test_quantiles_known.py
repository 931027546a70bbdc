"""Where a quantile lies by what is known of the counts below values, and what is measured next."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import RequirementError
from qserver.inference.quantiles.quantile import Quantile, Thresholds
from qserver.inference.quantiles.search import (
    Table,
    next_table,
    raised,
    rough_table,
    state_of,
    table_at_most,
)
from qserver.query.sql.functions.thresholds import Levels

METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "hazen", "weibull", "linear",
    "median_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip
"""Every kind of definition that numpy knows."""
N = 64
BETWEEN = Levels.reached(0.5)


def quantile(p: float = 0.5, *, half_width: float = 2.0) -> Quantile:
    values = np.arange(float(N))
    return Quantile(p, values, values, half_width=half_width, confidence=0.95, least=1000.0)


def thresholds(values: np.ndarray, p: float, stops: list[int], room: float) -> Thresholds:
    """What is known at some thresholds where each D is told to +-room, and is as it is."""
    d = np.array([float((values < stop).sum() - p * len(values)) for stop in stops])
    return Thresholds(tuple(stops), d, d - room, d + room)


@given(
    st.lists(st.integers(0, N - 1), min_size=1, max_size=40),
    st.fractions(Fraction(1, 20), Fraction(19, 20), max_denominator=20),
    st.lists(st.integers(1, N - 1), max_size=6),
)
def test_without_noise_the_interval_holds_every_definition(
    found: list[int], p: Fraction, inner: list[int]
) -> None:
    values = np.array(found)
    known = thresholds(values, float(p), sorted({0, N, *inner}), 0.0).bracket(BETWEEN)
    for method in METHODS:
        truth = np.quantile(values, float(p), method=method)  # type: ignore[call-overload]
        assert known.start - 1e-9 <= truth <= known.stop - 1 + 1e-9, method


def test_a_rough_threshold_says_nothing_against_a_far_more_exact_one() -> None:
    """One at 40 that is known to +-1,000 may be passed; the one at 20 is, to +-10."""
    d = np.array([-500.0, -200.0, 200.0, 400.0, 500.0])
    room = np.array([10.0, 10.0, 10.0, 1000.0, 10.0])
    known = Thresholds((0, 10, 20, 40, N), d, d - room, d + room)
    assert (known.bracket(BETWEEN).start, known.bracket(BETWEEN).stop) == (10, 20)
    # Of two that are about as exact each counts.
    room[3] = 15.0
    d[3] = -4.0
    known = Thresholds((0, 10, 20, 40, N), d, d - room, d + room)
    assert known.bracket(BETWEEN).stop == N


def test_noise_that_makes_a_group_negative_leaves_a_value_all_the_same() -> None:
    d = np.array([50.0, -60.0, -70.0, -50.0])
    known = Thresholds((0, 10, 20, N), d, d - 1.0, d + 1.0)
    assert (known.bracket(BETWEEN).start, known.bracket(BETWEEN).stop) == (20, N)
    rising = Thresholds((0, 10, 20, N), -d, -d - 1.0, -d + 1.0)
    assert (rising.bracket(BETWEEN).start, rising.bracket(BETWEEN).stop) == (0, 10)


def test_a_quantile_that_is_as_near_as_asked_is_met_and_one_of_few_records_is_not() -> None:
    values = np.repeat(np.arange(N), 40)
    near = thresholds(values, 0.5, [0, 30, 34, N], 10.0)
    far = thresholds(values, 0.5, [0, 16, 48, N], 10.0)
    size = float(len(values))
    assert state(near, size, size + 10) == "met"
    assert state(far, size, size + 10) == "open"
    assert state(far, 400.0, 900.0) == "few"
    # Where that many are not told apart from none, it is not known yet.
    assert state(far, -400.0, 900.0) == "open"


def test_one_bin_is_as_near_as_can_be() -> None:
    lows, highs = np.array([0.0, 50.0, 60.0]), np.array([49.0, 59.0, 99.0])
    number = Quantile(0.5, lows, highs, half_width=6.0, confidence=0.95, least=1000.0)
    assert number.reach.tolist() == [1.0, 2.0, 3.0]


def state(known: Thresholds, size: float, size_at_most: float) -> str:
    return state_of(quantile(), known, size=size, size_at_most=size_at_most, has_record=True)


def extreme(p: float, counts: list[float], room: float, *, has_record: bool = True) -> str:
    """Of the least value if p is 0: whether counts up to 16, 17 and all values tell it within 50.

    Of the greatest the same from the other end.
    """
    number, d = quantile(p, half_width=50.0), np.array([0.0, *counts])
    stops = (0, 16, 17, N)
    if p:
        d, stops = -d[::-1], (0, N - 17, N - 16, N)
    known = Thresholds(stops, d, d - room, d + room)
    return state_of(number, known, size=0.0, size_at_most=9e9, has_record=has_record)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_an_extreme_is_met_where_some_record_reaches_it_and_few_lie_beyond(p: float) -> None:
    assert extreme(p, [10.0, 200.0, 900.0], 80.0) == "met"
    # Between 16 and 17 they may be more than two times 50, or none up to 17.
    assert extreme(p, [30.0, 200.0, 900.0], 80.0) == "open"
    assert extreme(p, [10.0, 70.0, 900.0], 80.0) == "open"
    # One value that few reach, but some, is as good.
    assert extreme(p, [-300.0, 50.0, 900.0], 40.0) == "met"
    assert extreme(p, [0.0, 0.0, 15.0], 80.0, has_record=False) == "met"
    assert extreme(p, [0.0, 0.0, 25.0], 80.0, has_record=False) == "open"


def test_the_next_table_tells_the_quantile_where_what_is_known_is_right() -> None:
    """By exact counts of the next table at the noise that it is said to have."""
    rng, values, held = np.random.default_rng(5), np.repeat(np.arange(N), 400), 0
    number, n_runs = quantile(), 200
    known = thresholds(values, 0.5, [0, 16, 24, 32, 40, 48, N], 1500.0)
    table = next_table(number, known, 30_000.0)
    counts = np.histogram(values, bins=table.stops)[0]
    weights = np.tril(np.ones((len(counts),) * 2)) - 0.5
    for noise in rng.laplace(0.0, 1.0 / table.rate, (n_runs, len(counts))):
        d = np.concatenate([[-values.size / 2], weights @ (counts + noise)])
        room = 2.1 * math.sqrt(2 * len(counts) * 0.25) / table.rate
        found = Thresholds(table.stops, d, d - room, d + room).bracket(BETWEEN)
        held += number.reach[found.start] >= found.stop
    assert held > n_runs / 2


def test_a_first_table_depends_on_no_answer_and_not_on_the_length() -> None:
    assert rough_table(quantile(), 30_000.0) == rough_table(quantile(half_width=9.0), 30_000.0)
    assert next_table(quantile(), None, 30_000.0) == rough_table(quantile(), 30_000.0)
    # A longer interval, and more records, cost less at most.
    longer = table_at_most(quantile(half_width=4.0))
    assert longer.rate == pytest.approx(table_at_most(quantile()).rate / 2)
    assert longer.stops[0] == 0
    assert longer.stops[-1] == N


def test_a_table_whose_counts_are_known_is_measured_more_exactly() -> None:
    number, table = quantile(), Table((0, 32, N), 0.01)
    width = number.unit / table.rate
    assert raised(number, table, np.array([math.inf, 1.0])) == table
    assert raised(number, table, np.array([2 * width, 1.0])) == table
    more = raised(number, table, np.array([width, 1.0]))
    assert more.stops == table.stops
    assert more.rate == pytest.approx(1.3 * table.rate)


@pytest.mark.parametrize(
    ("p", "half_width", "confidence"),
    [(-0.1, 1.0, 0.9), (1.1, 1.0, 0.9), (0.5, 0.0, 0.9), (0.5, 1.0, 1.0)],
)
def test_what_is_no_quantile_is_refused(p: float, half_width: float, confidence: float) -> None:
    values = np.arange(3.0)
    with pytest.raises(RequirementError):
        Quantile(p, values, values, half_width=half_width, confidence=confidence, least=1.0)
