"""The number of groups that pass: against DuckDB, against brute force, and how often it holds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.query.sql.functions.function_of_sums import Combined, KnownPart
from qserver.query.sql.functions.group_count import Passing
from qserver.query.sql.order_by import Compare, Every, Opposite, Test
from qserver.query.sql.parser import parse_statement
from tests.query.sql.at_most import at_most
from tests.query.sql.people import DOMAIN, People

N_RUNS = 2000
CONFIDENCE = 0.9
AT_LEAST_3 = Compare(0, ">=", Fraction(3))
TESTS: tuple[Test, ...] = (
    AT_LEAST_3,
    Compare(Fraction(3), ">", 0),
    Compare(0, "=", Fraction(2)),
    Compare(0, "<>", Fraction(2)),
    Compare(0, "<", 1),
    Every((AT_LEAST_3, Compare(1, "<=", Fraction(2)))),
    Opposite(Every((AT_LEAST_3, Opposite(Compare(1, "=", Fraction(0)))))),
)
intervals = st.tuples(st.integers(0, 5), st.integers(0, 3))


def passing(test: Test, n_groups: int, *, columns: tuple[int, ...] = (0,)) -> Passing:
    return Passing(test, columns, (True,) * len(columns), n_groups)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region "
        "HAVING COUNT(*) >= 70) AS g",
        "SELECT COUNT(*) AS k FROM (SELECT region, age, COUNT(*) AS n FROM people WHERE age > 22 "
        "GROUP BY region, age) AS g WHERE n >= 10",
        "WITH g AS (SELECT age FROM people WHERE age < 25 GROUP BY age) SELECT COUNT(*) FROM g",
        "SELECT COUNT(*) FROM (SELECT DISTINCT region FROM people WHERE age < 22) AS g",
        "SELECT COUNT(*) FROM (SELECT age FROM people GROUP BY age "
        "HAVING SUM(age) > 800 AND COUNT(*) < 40) AS g",
        "SELECT COUNT(DISTINCT region) FROM people WHERE region <> 'North'",
        "SELECT COUNT(DISTINCT age) FILTER (WHERE age > 23) FROM people",
        "SELECT region, COUNT(DISTINCT age) FROM people WHERE age <> 22 GROUP BY region",
    ],
)
def test_without_noise_it_is_what_a_database_says(text: str, people: People) -> None:
    statement = parse_statement(f"{text} WITHIN 3", DOMAIN, dataset="people")
    truths = {row[0] if len(row) > 1 else "": row[-1] for row in people.duck(text)}
    for row in statement.rows:
        [cell] = row.cells
        assert isinstance(cell, Combined)
        exact = [float(people.value(query)) for query in cell.queries]
        found = cell.function.value([KnownPart(x, x, x) for x in exact])
        truth = truths[row.group[0] if row.group else ""]
        assert (found.estimate, found.low, found.high) == (truth, truth, truth)
    assert at_most(statement).questions


@given(st.sampled_from(TESTS), st.lists(st.tuples(intervals, intervals), min_size=1, max_size=3))
def test_the_interval_is_that_of_all_counts_in_their_intervals(
    test: Test, groups: list[tuple[tuple[int, int], tuple[int, int]]]
) -> None:
    parts = [KnownPart(float(low), low - 0.3, low + size + 0.4) for g in groups for low, size in g]
    found = passing(test, len(groups), columns=(0, 1)).value(parts)
    may, must = 0, 0
    for (a, more_a), (b, more_b) in groups:
        pairs = [(x, y) for x in range(a, a + more_a + 1) for y in range(b, b + more_b + 1)]
        held = [bool(test.holds(pair)) for pair in pairs]
        may, must = may + any(held), must + all(held)
    # Of tests that name a number twice, or several numbers, it may be longer.
    assert found.low <= must
    assert found.high >= may
    if isinstance(test, Compare):
        assert (found.low, found.high) == (must, may)
    assert found.estimate is not None
    assert found.low <= found.estimate <= found.high


@pytest.mark.parametrize("counts", [[3] * 12, [2] * 12, list(range(12))])
def test_intervals_hold_for_all_groups_at_once(counts: list[int]) -> None:
    rng = np.random.default_rng(23)
    function = passing(AT_LEAST_3, len(counts))
    scale = 2.0
    half = scale * math.log(1 / function.part_missed(1 - CONFIDENCE))
    truth, held = sum(n >= 3 for n in counts), 0
    for noise in rng.laplace(0.0, scale, (N_RUNS, len(counts))):
        middles = [n + e for n, e in zip(counts, noise.tolist(), strict=True)]
        found = function.value([KnownPart(m, m - half, m + half) for m in middles])
        held += found.low <= truth <= found.high
    # The room is four standard errors.
    assert held / N_RUNS >= CONFIDENCE - 4 * math.sqrt(0.09 / N_RUNS)


def test_each_count_may_miss_with_its_part_and_twice_that_at_one_end() -> None:
    assert passing(AT_LEAST_3, 8).part_missed(0.04) == pytest.approx(0.85 * 0.01)
    # Of one group either end may miss, and one of them matters.
    assert passing(AT_LEAST_3, 1).part_missed(0.04) == 0.04
    both = Compare(0, "=", Fraction(3))
    assert passing(both, 8).part_missed(0.04) == pytest.approx(0.85 * 0.005)
    two = Every((AT_LEAST_3, Compare(1, "<", Fraction(9))))
    assert passing(two, 8, columns=(0, 1)).part_missed(0.04) == pytest.approx(0.85 * 0.0025)


def test_within_is_about_groups_but_where_one_record_suffices() -> None:
    function = passing(Compare(0, ">=", Fraction(50)), 20)
    assert function.has_steps
    assert function.width(2.0) == 5.0
    assert function.width(0.01) == 0.5
    assert function.width(20.0) == 25.0
    one = passing(Compare(0, ">=", Fraction(1)), 20)
    assert not one.has_steps
    assert one.width(7.0) == 7.0
    # What is surely there is given, not what noise lets seem so.
    counts = [KnownPart(x, x - 20.0, x + 20.0) for x in (0.0, 5.0, 15.0, 21.5, 90.0)]
    found = passing(Compare(0, ">=", Fraction(1)), 5).value(counts)
    assert (found.estimate, found.low, found.high) == (2, 2, 5)
    # Nothing is known of any group.
    found = function.value([KnownPart(0.0, -math.inf, math.inf)] * 20)
    assert (found.low, found.high) == (0, 20)


def test_where_no_value_can_be_the_number_of_values_is_an_exact_zero() -> None:
    text = "SELECT COUNT(DISTINCT region) FROM people WHERE region IS NULL"
    statement = parse_statement(text, DOMAIN, dataset="people")
    assert statement.only_query.is_zero
