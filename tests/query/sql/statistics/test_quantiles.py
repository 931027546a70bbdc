"""Quantiles: the interval against all definitions of a quantile, and how often it holds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import SqlError
from qserver.query.linear_query import total_query
from qserver.query.sql.functions.function_of_sums import Combined, KnownPart
from qserver.query.sql.functions.quantile import ByThresholds, Quantile
from qserver.query.sql.functions.thresholds import Bins, QuantileOf
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statistics.smooth_functions import order_asked
from tests.query.sql.people import AGES, DOMAIN, People

METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "hazen", "weibull", "linear",
    "median_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip
"""Every kind of definition that numpy knows."""
N_RUNS = 2000
CONFIDENCE = 0.9
# Four standard errors of 2000 runs at 0.9.
ROOM = 0.027
shares = st.fractions(Fraction(1, 20), Fraction(19, 20), max_denominator=20)


def exactly(values: np.ndarray, p: Fraction, n: int) -> list[KnownPart]:
    """What is known of D at 0, ..., n - 1 where it has no noise."""
    counts = [float((values <= v).sum() - p * len(values)) for v in range(n)]
    return [KnownPart(d, d, d) for d in counts]


def quantile(p: Fraction, n: int) -> ByThresholds:
    values = tuple(map(Fraction, range(n)))
    return ByThresholds(p, values, values)


@given(st.lists(st.integers(0, 11), min_size=1, max_size=40), shares)
def test_without_noise_the_interval_holds_every_definition(found: list[int], p: Fraction) -> None:
    values = np.array(found)
    value = quantile(p, 12).value(exactly(values, p, 12))
    for method in METHODS:
        truth = np.quantile(values, float(p), method=method)  # type: ignore[call-overload]
        assert value.low - 1e-9 <= truth <= value.high + 1e-9, method
    # And no more than that: its ends are values of the records next to the quantile's.
    ranked, k = np.sort(values), len(values) * p
    below, above = math.ceil(k) - 2, math.floor(k) + 1
    assert value.low == (ranked[below] if below >= 0 else 0)
    assert value.high == (ranked[above] if above < len(values) else 11)


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(9, 10), Fraction(1, 20)])
@pytest.mark.parametrize("heap", [0, 400])
def test_intervals_hold_as_often_as_one_threshold_does(p: Fraction, heap: int) -> None:
    """Noise of a table and of rows alone, and a heap of equal values or none."""
    rng = np.random.default_rng(11)
    values = np.concatenate([rng.integers(0, 30, 600), np.full(heap, 13)])
    truth = float(np.quantile(values, float(p), method="inverted_cdf"))
    function, exact = quantile(p, 30), exactly(values, p, 30)
    for cells in (True, False):
        half = 1.0 / np.sqrt(1.0 / 8.0) if cells else 1.0
        noise = rng.laplace(0.0, 12.0 * half, (N_RUNS, 30))
        if cells:
            below = np.tril(np.ones((30, 30)))
            noise = noise @ (below - float(p)).T
        width = np.quantile(np.abs(noise), CONFIDENCE, axis=0)
        held = 0
        for errors in noise:
            found = function.value(
                [
                    KnownPart(d.estimate + e, d.estimate + e - w, d.estimate + e + w)
                    for d, e, w in zip(exact, errors, width, strict=True)
                ]
            )
            held += found.low <= truth <= found.high
        assert held / N_RUNS >= CONFIDENCE - ROOM


def test_an_interval_of_noise_that_contradicts_itself_is_still_one() -> None:
    parts = [KnownPart(d, d - 0.1, d + 0.1) for d in (50.0, -60.0, 70.0)]
    found = quantile(Fraction(1, 2), 3).value(parts)
    assert found.low <= (found.estimate or 0.0) <= found.high


@pytest.mark.parametrize(
    ("item", "p"),
    [
        ("MEDIAN(age)", "1/2"),
        ("PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age)", "1/4"),
        ("PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY age DESC)", "3/4"),
        ("QUANTILE(age, 0.9)", "9/10"),
        ("QUANTILE_CONT(age, 0.9)", "9/10"),
        ("PERCENTILE_CONT(age, 0.1)", "1/10"),
        ("APPROX_QUANTILE(age, 0.5)", "1/2"),
        ("ROUND(MEDIAN(age), 1)", "1/2"),
    ],
)
def test_a_quantile_is_asked_by_the_counts_below_each_value(
    item: str, p: str, people: People
) -> None:
    text = f"SELECT {item} FROM people WHERE region <> 'North' WITHIN 1"
    [row] = parse_statement(text, DOMAIN, dataset="people").rows
    [cell] = row.cells
    assert isinstance(cell, Combined)
    share = Fraction(p)
    assert isinstance(cell.function, Quantile)
    of, [base] = cell.function.of, cell.queries
    assert of.p == share
    kept = "SELECT COUNT(*) FROM people WHERE region <> 'North'"
    [(below,)] = people.duck(kept)
    assert people.value(base) == int(str(below))
    for stop, age in enumerate(AGES, 1):
        [(count,)] = people.duck(f"{kept} AND age <= {age}")
        assert people.value(of.threshold(base, stop)) == int(str(count)) - share * int(str(below))
        assert people.value(of.count(base, 0, stop)) == int(str(count))
        assert of.counts(base, of.count(base, 0, stop))
        assert not of.counts(base, of.threshold(base, stop))


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("MEDIAN(region)", "have numbers there"),
        ("MEDIAN(2 * age)", "one numeric attribute"),
        ("QUANTILE(age, 1)", "between 0 and 1"),
        ("PERCENTILE_CONT(1.5) WITHIN GROUP (ORDER BY age)", "between 0 and 1"),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age, income)", "order by one"),
        ("MEDIAN(age) WITHIN 2 PERCENT", "in the units of the number"),
    ],
)
def test_what_is_no_quantile_is_refused(item: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        order_asked(parse_statement(f"SELECT {item} FROM people", DOMAIN, dataset="people"))


def test_groups_share_the_most_numbers_of_a_text() -> None:
    """Fewer thresholds stand for more values each, and the last one stays."""
    values = tuple(map(Fraction, range(100)))
    of = QuantileOf(Fraction(1, 2), Bins(0, 100, values, values))
    queries, found = Quantile(of).at_once(total_query((100, 2)), 7)
    assert len(queries) == 7
    assert [queries[-1].value_at((at, 0)) for at in (0, 99)] == [Fraction(1, 2)] * 2
    assert isinstance(found, ByThresholds)
    lows, highs = found.lows, found.highs
    assert [int(low) for low in lows[1:]] == [int(high) + 1 for high in highs[:-1]]
    assert (lows[0], highs[-1]) == (0, 99)
