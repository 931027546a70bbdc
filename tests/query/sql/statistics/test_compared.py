"""The greatest, the least and other functions of numbers: what intervals and bins leave open."""

from __future__ import annotations

import math
import random

import duckdb
import numpy as np
import pytest

from qserver.errors import CapacityError, SqlError
from qserver.query.sql.functions.function_of_sums import Combined, KnownPart, Smooth
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Sum
from qserver.query.sql.statistics.moments import OfMoments, Standardised
from tests.query.sql.people import DOMAIN

A, B = "COUNT_IF(age < 22)", "COUNT_IF(age < 24)"
ITEMS = (
    f"GREATEST({A}, {B}, 3)",
    f"LEAST({A}, 2 * {B} - 5)",
    f"ABS({A} - {B}) + ABS({A} - 7) / 2",
    f"{A} * 1.0 / GREATEST({A}, {B})",
    f"LN(GREATEST({A}, {B}, 1)) - LEAST({B}, 9)",
    f"GREATEST({A} / ({B} + 1.0), {B} - 3)",
    f"SQRT(ABS({A} - {B}))",
)


def cell_of(item: str, kept: str = "FROM people") -> Combined:
    statement = parse_statement(f"SELECT {item} {kept} WITHIN 1", DOMAIN, dataset="people")
    [[cell]] = [row.cells for row in statement.rows]
    assert isinstance(cell, Combined)
    return cell


def smooth_of(cell: Combined) -> Smooth:
    found = cell.function.smooth
    assert found is not None
    return found


@pytest.mark.parametrize("item", ITEMS)
def test_whatever_is_possible_within_intervals_lies_between_the_ends(item: str) -> None:
    """Of its smooth pieces, and of its sums where these hold at once."""
    cell, rng = cell_of(item), np.random.default_rng(7)
    smooth = smooth_of(cell)
    assert smooth.kinks is not None
    for _ in range(40):
        middle = rng.uniform(2.0, 60.0, len(cell.queries))
        off = rng.uniform(0.0, 20.0, len(middle))
        sums = (middle + off * rng.uniform(-1.0, 1.0, (200, len(middle)))).T
        values, pieces = smooth.values(sums), smooth.kinks.pieces(sums)
        known = np.isfinite(values) & np.isfinite(pieces).all(axis=0)
        low, high = smooth.kinks.ends(pieces[:, known].min(axis=1), pieces[:, known].max(axis=1))
        assert (values[known] >= low - 1e-9).all()
        assert (values[known] <= high + 1e-9).all()
        given = zip(middle.tolist(), off.tolist(), strict=True)
        found = cell.function.value([KnownPart(m, m - h, m + h) for m, h in given])
        assert (values[known] >= found.low - 1e-9).all()
        assert (values[known] <= found.high + 1e-9).all()


def test_numbers_of_the_same_sums_are_told_by_each_sum_once() -> None:
    inner = "FROM (SELECT age, COUNT(*) AS n FROM people GROUP BY age) AS t"
    greatest, both = cell_of("MAX(n)", inner), cell_of("MAX(n) - MIN(n)", inner)
    assert set(both.queries) == set(greatest.queries)
    assert len(both.queries) == len(greatest.queries)
    assert smooth_of(both).is_steady


@pytest.mark.parametrize(
    "item", ["LN(COUNT(*))", f"{A} * 1.0 / GREATEST({A}, {B})", "AVG(age) + 1"]
)
def test_what_depends_on_the_number_of_records_is_told_from_what_does_not(item: str) -> None:
    statement = parse_statement(f"SELECT {item} FROM people WITHIN 1", DOMAIN, dataset="people")
    [[cell]] = [row.cells for row in statement.rows]
    assert not isinstance(cell, Combined) or not smooth_of(cell).is_steady


def test_too_many_numbers_are_not_compared() -> None:
    text = "SELECT {0}, COUNT(*) * 1.0 / MAX(COUNT(*)) OVER () FROM people GROUP BY {0} WITHIN 1"
    parse_statement(text.format("age"), DOMAIN, dataset="people")
    with pytest.raises(CapacityError, match="compares at most 1,000 numbers"):
        parse_statement(text.format("age, income, region"), DOMAIN, dataset="people")


@pytest.mark.parametrize(
    ("item", "of"),
    [
        ("EXP(AVG(LN(age)))", lambda off: math.exp(math.log(40) + off)),
        ("1 / AVG(1.0 / age)", lambda off: 1 / (1 / 40 + off)),
        ("POWER(AVG(SQRT(age)), 2)", lambda off: (math.sqrt(40) + off) ** 2),
    ],
)
def test_what_rounding_hides_of_a_function_of_an_average_is_bounded(item: str, of: object) -> None:
    """All people are 40: the average of the function may be half a step off."""
    binning = cell_of(item).binning
    assert binning is not None
    assert callable(of)
    off = abs(of(1 / 8192) - of(0.0))
    assert 0.3 * off < float(binning.error) < 30 * off
    assert binning.of == "value"


def _parts(values: list[float], radius: float, kind: OfMoments) -> list[float]:
    u = np.array(values) / radius
    found = [float(len(u)), u.sum(), (u**2 - 0.5).sum(), (u**3).sum()]
    return found if kind == "skewness" else [*found, float((u**4 - 0.5).sum())]


@pytest.mark.parametrize("kind", ["skewness", "kurtosis", "kurtosis_pop"])
def test_skewness_and_kurtosis_are_what_duckdb_says_of_few_records_and_many(
    kind: OfMoments,
) -> None:
    rng, connection = random.Random(11), duckdb.connect()
    lists = [[], [5], [5, 5], [1, 5], [5, 5, 5], [1, 2, 4], [-9, 2, 4, 4], [4] * 9]
    lists += [[min(int(rng.expovariate(0.3)), 10) for _ in range(n)] for n in (7, 40, 400)]
    for values in lists:
        text = f"SELECT {kind}(x) FROM (SELECT UNNEST(?::DOUBLE[]) AS x)"
        [(truth,)] = connection.execute(text, [values]).fetchall()
        parts = [KnownPart(p, p, p) for p in _parts([float(v) for v in values], 10.0, kind)]
        found = Standardised(kind).value(parts).estimate
        assert found == (truth if truth is None else pytest.approx(truth, rel=1e-9, abs=1e-9))


def test_of_a_number_without_a_value_the_greatest_is_that_of_the_others() -> None:
    """Where nobody is, an average has no value, and SQL leaves it out."""
    cell = cell_of("GREATEST(AVG(age) FILTER (WHERE income < 10), COUNT(*), 3)")
    smooth = smooth_of(cell)
    assert smooth.kinks is not None
    assert (smooth.low, smooth.high) == (3.0, math.inf)
    low, high = smooth.kinks.ends(np.array([-math.inf, 7.0]), np.array([math.inf, 9.0]))
    assert (low, high) == (7.0, 27.0)
    [*of_average, count] = [KnownPart(0.0, -5.0, 5.0)] * 2 + [KnownPart(8.0, 7.0, 9.0)]
    found = cell.function.value([*of_average, count])
    assert (found.low, found.high) == (7.0, 27.0)
    least = smooth_of(cell_of("LEAST(AVG(age) FILTER (WHERE age > 100), AVG(age))"))
    assert (least.low, least.high) == (20.0, 27.0)


def test_functions_of_what_a_row_before_the_first_has_are_public() -> None:
    inner = "(SELECT age, COALESCE(LAG(COUNT(*)) OVER (ORDER BY age), {}) AS n FROM people {}) AS t"
    kept = "WHERE age < 22 GROUP BY age"
    text = f"SELECT age, GREATEST(SQRT(ABS(n)), 1) AS x FROM {inner.format(-9, kept)} WITHIN 1"
    statement = parse_statement(text, DOMAIN, dataset="people")
    [first], [second] = (row.cells for row in statement.rows)
    assert isinstance(first, Sum)
    assert first.query.is_zero
    assert first.offset == 3
    assert isinstance(second, Combined)
    text = f"SELECT age, LN(n) AS x FROM {inner.format(0, kept)} WITHIN 1"
    with pytest.raises(SqlError, match="numbers that have a value"):
        parse_statement(text, DOMAIN, dataset="people")


def test_a_number_is_all_of_itself() -> None:
    text = "SELECT age, COUNT(*) * 1.0 / {}(COUNT(*)) OVER (ORDER BY age) FROM people GROUP BY age"
    for function in ("SUM", "MAX", "MIN"):
        statement = parse_statement(f"{text.format(function)} WITHIN 1", DOMAIN, dataset="people")
        [[first], [second], *_] = (row.cells for row in statement.rows)
        assert isinstance(first, Sum)
        assert first.query.is_zero
        assert first.offset == 1
        assert not isinstance(second, Sum)
