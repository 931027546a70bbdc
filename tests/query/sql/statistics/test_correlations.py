"""Correlations: against numpy, against brute force, with bins, and how often they hold."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from qserver.errors import SqlError
from qserver.query.domain import Attribute, Domain
from qserver.query.sql.functions.function_of_sums import Combined, KnownPart
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statistics.moments import Correlation, Range, covariance_range
from tests.query.sql.people import DOMAIN

RADII = (Fraction(10), Fraction(4))
FUNCTION = Correlation(RADII, (Fraction(0), Fraction(0)))
N_RUNS = 2000
CONFIDENCE = 0.9
Floats = np.ndarray
sums = st.tuples(st.integers(-40, 40), st.integers(0, 9))


def moments(x: Floats, y: Floats) -> list[float]:
    """The six sums of values within the radii."""
    half = [float(r) ** 2 / 2 for r in RADII]
    found = (
        len(x),
        x.sum(),
        (x**2 - half[0]).sum(),
        y.sum(),
        (y**2 - half[1]).sum(),
        (x * y).sum(),
    )
    return [float(one) for one in found]


def parts(middles: list[float], halves: list[float]) -> list[KnownPart]:
    return [KnownPart(m, m - h, m + h) for m, h in zip(middles, halves, strict=True)]


@pytest.mark.parametrize("width", [1, 2])
def test_without_noise_the_correlation_is_in_the_interval(width: int) -> None:
    """By the middles of bins, and of the values in them, which bins of two hide."""
    edges = tuple(map(Fraction, range(0, 49, width)))
    domain = Domain(tuple(Attribute(name, "integer", edges=edges) for name in ("x", "y")))
    rng = np.random.default_rng(4)
    x = rng.integers(0, 48, 300)
    y = (x + rng.integers(0, 40, 300)) // 2
    cells = np.stack([x // width, y // width], axis=1)
    statement = parse_statement("SELECT CORR(x, y) FROM t WITHIN 0.1", domain, dataset="t")
    [cell] = statement.rows[0].cells
    assert isinstance(cell, Combined)
    exact = [float(sum(q.value_at(tuple(c)) for c in cells.tolist())) for q in cell.queries]
    found = cell.function.value(parts(exact, [0.0] * 6))
    assert found.estimate == pytest.approx(np.corrcoef(cells.T)[0, 1], rel=1e-9)
    truth = float(np.corrcoef(x, y)[0, 1])
    assert found.low <= truth <= found.high
    assert (found.high - found.low < 1e-6) == (width == 1)


@given(st.tuples(st.integers(-2, 20), st.integers(0, 9)), sums, sums, sums)
def test_covariances_are_those_of_all_values_in_the_intervals(
    n: tuple[int, int], x: tuple[int, int], y: tuple[int, int], p: tuple[int, int]
) -> None:
    box_n, box_x, box_y, box_p = boxes = [
        KnownPart(float(low), float(low), float(low + size)) for low, size in (n, x, y, p)
    ]
    assume(boxes[0].high >= 1.0)
    most = Fraction(40)
    found = covariance_range(box_n, box_x, box_y, box_p, most)
    shares = 1.0 / np.linspace(max(boxes[0].low, 1.0), max(boxes[0].high, 1.0), 2000)
    corners = list(itertools.product(*((box.low, box.high) for box in boxes[1:])))
    values = np.array([c * shares - a * b * shares**2 for a, b, c in corners])
    low, high = float(values.min()), float(values.max())
    if high < -40.0 or low > 40.0:
        assert found == Range(-most, most)
        return
    # What bounds leave is half as long at least, from the bound that cut it.
    length = min((high - low) / 2, 80.0)
    low, high = max(low, -40.0), min(high, 40.0)
    if high == 40.0:
        low = min(low, 40.0 - length)
    elif low == -40.0:
        high = max(high, length - 40.0)
    assert float(found.low) == pytest.approx(low, abs=2e-2)
    assert float(found.high) == pytest.approx(high, abs=2e-2)
    assert float(found.low) <= low + 1e-9
    assert float(found.high) >= high - 1e-9


@pytest.mark.parametrize("slope", [-0.35, 0.0, 0.1, 0.4])
def test_what_all_sums_allow_holds_at_least_as_often_as_they_do_at_once(slope: float) -> None:
    rng = np.random.default_rng(7)
    x = rng.uniform(-10.0, 10.0, 800)
    y = (slope * x + rng.normal(0.0, 0.6, 800)).clip(-4.0, 4.0)
    truth, middles = float(np.corrcoef(x, y)[0, 1]), moments(x, y)
    scales = np.array((4.0, 40.0, 300.0, 16.0, 50.0, 120.0)) / 4.0
    widths = scales * math.log(6 / (1 - CONFIDENCE))
    held = 0
    for noise in rng.laplace(0.0, scales, (N_RUNS, 6)):
        shown = [m + e for m, e in zip(middles, noise.tolist(), strict=True)]
        found = FUNCTION.value(parts(shown, widths.tolist()))
        held += found.low <= truth <= found.high
        assert found.estimate is None or -1.0 <= found.low <= found.estimate <= found.high <= 1.0
    assert held / N_RUNS >= CONFIDENCE


def test_bins_are_in_the_interval() -> None:
    """Whatever the values in their bins are, their correlation is inside."""
    rng = np.random.default_rng(8)
    function = Correlation(RADII, (Fraction(1), Fraction(1, 2)))
    for _ in range(300):
        x = rng.integers(-4, 5, 30) * 2.0
        y = (0.3 * x + rng.integers(-1, 2, 30)).round().clip(-3, 3)
        true = x + rng.choice([-1.0, 1.0], 30), y + rng.choice([-0.5, 0.5], 30)
        found = function.value(parts(moments(x, y), [0.0] * 6))
        assert found.low <= np.corrcoef(*true)[0, 1] <= found.high


def test_draws_of_the_sums_give_the_correlation_of_each() -> None:
    rng = np.random.default_rng(3)
    pairs = [rng.uniform(-4.0, 4.0, (2, 50)) for _ in range(5)]
    found = FUNCTION.smooth.values(np.array([moments(x, y) for x, y in pairs]).T)
    assert found == pytest.approx([np.corrcoef(x, y)[0, 1] for x, y in pairs], rel=1e-9)
    assert np.isnan(FUNCTION.smooth.values(np.zeros((6, 1))))


def test_what_is_unknown_or_the_same_for_all_may_be_anything() -> None:
    unknown = FUNCTION.value([KnownPart(0.0, -math.inf, math.inf)] * 6)
    assert (unknown.estimate, unknown.low, unknown.high) == (None, -1.0, 1.0)
    nobody = FUNCTION.value(parts([0.0] * 6, [0.0] * 6))
    assert (nobody.estimate, nobody.low, nobody.high) == (None, -1.0, 1.0)
    same = FUNCTION.value(parts(moments(np.full(9, 2.0), np.arange(9.0) / 3), [0.0] * 6))
    assert same.estimate is None
    assert same.low <= 0.0 <= same.high


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("CORR(age, income)", "narrow bins: in `income` values may be 17 from"),
        ("CORR(age, region)", "have numbers there"),
        ("CORR(age, age)", "correlate two attributes"),
        ("CORR(age, 2 * income)", "one numeric attribute"),
    ],
)
def test_what_is_no_correlation_of_two_attributes_is_refused(item: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        parse_statement(f"SELECT {item} FROM people", DOMAIN, dataset="people")


@pytest.mark.parametrize("item", ["COVAR_POP(y, x)", "REGR_SLOPE(y, x)", "REGR_R2(x, y)"])
def test_what_has_one_value_varies_with_nothing(item: str) -> None:
    one, many = (tuple(map(Fraction, range(n))) for n in (2, 5))
    domain = Domain((Attribute("x", "integer", edges=one), Attribute("y", "integer", edges=many)))
    with pytest.raises(SqlError, match="two attributes there of several values"):
        parse_statement(f"SELECT {item} FROM d", domain, dataset="d")
