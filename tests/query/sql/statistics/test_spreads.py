"""Variances and deviations: against DuckDB, against brute force, and how often they hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from qserver.errors import SqlError
from qserver.query.sql.functions.function_of_sums import Binning, Combined, KnownPart
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statistics.moments import Range, Spread, sample_factors, variance_range
from qserver.query.sql.statistics.smooth_functions import smooth_asked
from tests.query.sql.people import DOMAIN, People

RADIUS = Fraction(10)
N_RUNS = 2000
CONFIDENCE = 0.9
UNKNOWN = [KnownPart(0.0, -math.inf, math.inf)] * 3
numbers = st.fractions(-60, 60, max_denominator=8)


def spread(*, is_root: bool = False, is_sample: bool = False) -> Spread:
    return Spread(RADIUS, is_root=is_root, is_sample=is_sample)


def sums(values: np.ndarray) -> tuple[float, float, float]:
    """N, S and Q of values that lie from -RADIUS to RADIUS."""
    return (
        float(len(values)),
        float(values.sum()),
        float((values**2 - float(RADIUS) ** 2 / 2).sum()),
    )


def parts(middles: Sequence[float], halves: Sequence[float]) -> list[KnownPart]:
    pairs = zip(middles, halves, strict=True)
    return [KnownPart(m, m - h, m + h) for m, h in pairs]


@pytest.mark.parametrize(
    ("item", "duck"),
    [
        ("VARIANCE(age)", "VAR_SAMP"),
        ("VAR_SAMP(age)", "VAR_SAMP"),
        ("VAR(age)", "VAR_SAMP"),
        ("VAR_POP(age)", "VAR_POP"),
        ("VARP(age)", "VAR_POP"),
        ("STDDEV(age)", "STDDEV_SAMP"),
        ("STDDEV_SAMP(age)", "STDDEV_SAMP"),
        ("STDEV(age)", "STDDEV_SAMP"),
        ("STD(age)", "STDDEV_SAMP"),
        ("STDDEV_POP(age)", "STDDEV_POP"),
        ("STDEVP(age)", "STDDEV_POP"),
    ],
)
def test_without_noise_it_is_what_a_database_says(item: str, duck: str, people: People) -> None:
    kept = "FROM people WHERE region <> 'North'"
    [row] = parse_statement(f"SELECT {item} {kept} WITHIN 1", DOMAIN, dataset="people").rows
    [cell] = row.cells
    assert isinstance(cell, Combined)
    exact = [float(people.value(query)) for query in cell.queries]
    found = cell.function.value(parts(exact, (0, 0, 0)))
    [(truth,)] = people.duck(f"SELECT {duck}(age) {kept}")
    assert found.estimate == pytest.approx(truth, rel=1e-12)
    assert (found.low, found.high) == pytest.approx((truth, truth), rel=1e-9)
    assert cell.binning is None
    chosen = f"SELECT region, COUNT(*) FROM people GROUP BY region HAVING {item} > 5 WITHIN 1"
    assert parse_statement(chosen, DOMAIN, dataset="people").shape.test is not None


@given(
    st.tuples(st.integers(-3, 30), st.integers(0, 9)),
    st.tuples(numbers, st.integers(0, 9)),
    st.tuples(numbers, st.integers(0, 9)),
)
def test_the_range_is_that_of_all_values_in_the_intervals(
    n: tuple[int, int], s: tuple[Fraction, int], q: tuple[Fraction, int]
) -> None:
    """No grid point of the three intervals gives a value outside, and the ends are reached."""
    box_n, box_s, box_q = boxes = [
        KnownPart(float(low), float(low), float(low + size)) for low, size in (n, s, q)
    ]
    assume(boxes[0].high >= 1.0)
    found = variance_range(box_n, box_s, box_q, RADIUS)
    most = float(RADIUS) ** 2
    grids = [np.linspace(box.low, box.high, 61) for box in boxes]
    shares = 1.0 / np.linspace(max(boxes[0].low, 1.0), max(boxes[0].high, 1.0), 400)
    mean = grids[1][:, None] * shares
    low = np.min(grids[2].min() * shares - mean**2) + most / 2
    high = np.max(grids[2].max() * shares - np.min(np.abs(mean), axis=0) ** 2) + most / 2
    if high < 0.0 or low > most:
        assert found == Range(Fraction(0), Fraction(100))
        return
    # What bounds leave is half as long at least, from the bound that cut it.
    length = min((high - low) / 2, most)
    low, high = max(low, 0.0), min(high, most)
    if high == most:
        low = min(low, most - length)
    elif low == 0.0:
        high = max(high, length)
    assert float(found.low) <= low + 1e-9
    assert float(found.high) >= high - 1e-9
    # The grid leaves out a little: by its steps in S and in 1 / N.
    room = 1.0 + 0.1 * (abs(low) + abs(high) + length)
    assert float(found.low) == pytest.approx(low, abs=room)
    assert float(found.high) == pytest.approx(high, abs=room)


@pytest.mark.parametrize("shape", ["one end", "both ends", "even", "few"])
@pytest.mark.parametrize("is_root", [False, True])
def test_what_all_sums_allow_holds_at_least_as_often_as_they_do_at_once(
    shape: str, *, is_root: bool
) -> None:
    rng = np.random.default_rng(5)
    values = {
        "one end": 9.0 - rng.exponential(1.0, 500).clip(0, 15),
        "both ends": rng.choice([-10.0, 10.0], 500),
        "even": rng.uniform(-10.0, 10.0, 500),
        "few": rng.uniform(-10.0, 10.0, 12),
    }[shape]
    function = spread(is_root=is_root)
    truth, middles = float(values.std() if is_root else values.var()), np.array(sums(values))
    scales = np.array((8.0, 40.0, 300.0))
    halves = scales * math.log(3 / (1 - CONFIDENCE))
    held = 0
    for noise in rng.laplace(0.0, scales, (N_RUNS, 3)):
        found = function.value(parts((middles + noise).tolist(), halves.tolist()))
        held += found.low <= truth <= found.high
    assert held / N_RUNS >= CONFIDENCE


def test_of_a_sample_the_interval_holds_for_every_number_of_records() -> None:
    factors = sample_factors(KnownPart(5.0, 3.0, 9.0))
    assert factors == Range(Fraction(9, 8), Fraction(3, 2))
    # One record has no variance, so two are the fewest.
    assert sample_factors(KnownPart(1.0, -2.0, math.inf)) == Range(Fraction(1), Fraction(2))
    assert spread(is_sample=True).value(parts((1.0, 0.0, 0.0), (0, 0, 0))).estimate is None
    assert spread().value(parts((0.0, 0.0, 0.0), (0, 0, 0))).estimate is None


@pytest.mark.parametrize("is_root", [False, True])
def test_what_is_unknown_may_be_anything_that_is_public(*, is_root: bool) -> None:
    for known in (UNKNOWN, parts((0.0, 0.0, 0.0), (0, 0, 0))):
        found = spread(is_root=is_root).value(known)
        assert (found.low, found.high) == pytest.approx((0.0, 10.0 if is_root else 100.0))


@pytest.mark.parametrize("is_sample", [False, True])
def test_bins_move_a_deviation_by_no_more_than_is_said(*, is_sample: bool) -> None:
    """Income has bins of 10, 15 and 35 whole numbers, up to 17 from their middles."""
    rng = np.random.default_rng(3)
    edges, middles = np.array((0, 10, 25, 60)), np.array((4.5, 17.0, 42.0))
    name = "SAMP" if is_sample else "POP"
    cells = [
        parse_statement(f"SELECT {item}(income) FROM people WITHIN 9", DOMAIN, dataset="people")
        .rows[0]
        .cells[0]
        for item in (f"STDDEV_{name}", f"VAR_{name}")
    ]
    said = [cell.binning for cell in cells]
    assert all(isinstance(one, Binning) and one.of == "value" for one in said)
    worst = np.zeros(2)
    for _ in range(300):
        values = rng.choice([0, 9, 10, 24, 25, 59], rng.integers(2, 9))
        seen = middles[np.digitize(values, edges) - 1]
        ddof = int(is_sample)
        gap = np.array((values.std(ddof=ddof) - seen.std(ddof=ddof), 0.0))
        gap[1] = values.var(ddof=ddof) - seen.var(ddof=ddof)
        worst = np.maximum(worst, np.abs(gap))
    assert worst[0] <= float(said[0].error if said[0] else 0)
    assert worst[1] <= float(said[1].error if said[1] else 0)


@pytest.mark.parametrize("is_root", [False, True])
@pytest.mark.parametrize("is_sample", [False, True])
def test_draws_of_the_sums_give_the_value_of_each(*, is_root: bool, is_sample: bool) -> None:
    rng = np.random.default_rng(4)
    many = [rng.uniform(-9.0, 9.0, 40) for _ in range(5)]
    smooth = spread(is_root=is_root, is_sample=is_sample).smooth
    found = smooth.values(np.array([sums(values) for values in many]).T)
    variances = np.array([values.var(ddof=int(is_sample)) for values in many])
    assert found == pytest.approx(np.sqrt(variances) if is_root else variances, rel=1e-9)
    # No records, and squares that no numbers have.
    nothing = smooth.values(np.array([[0.0, 9.0], [0.0, 0.0], [0.0, -900.0]]))
    assert np.isnan(nothing[0])
    assert np.isnan(nothing[1]) == is_root


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("VARIANCE(region)", "have numbers there"),
        ("STDDEV(DISTINCT age)", "not use DISTINCT"),
        ("STDDEV(age) WITHIN 2 PERCENT", "in the units of the number"),
    ],
)
def test_what_is_no_spread_of_an_attribute_is_refused(item: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        smooth_asked(parse_statement(f"SELECT {item} FROM people", DOMAIN, dataset="people"))
