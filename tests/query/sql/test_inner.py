"""SELECTs of groups behind IN: what they may give by numbers that lie in intervals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from qserver.errors import SqlError
from qserver.query.sql.functions.function_of_sums import KnownPart
from qserver.query.sql.order_by import Compare, Every, Shape, SortKey
from qserver.query.sql.shaping.inner_select import InnerSelect, Values
from qserver.query.sql.statement import Statement
from tests.query.sql.people import read

HAVING = Shape(Every((Compare(0, ">", Fraction(4)),)))
FIRST = Shape(keys=(SortKey(0, descending=True),), limit=2)
LEAST = Shape(keys=(SortKey(0),), limit=1)
BOTH = Shape(HAVING.test, FIRST.keys, 1)


def of_shape(shape: Shape, n: int) -> InnerSelect[Statement]:
    statement = read("SELECT COUNT(*) FROM people")
    return InnerSelect(statement, tuple(map(str, range(n))), shape, (True,), tells_null=False)


def true_choices(shape: Shape, counts: Sequence[int]) -> set[Values]:
    """What SQL gives for these counts, in any order of equal ones; without a record is no row."""
    rows = [i for i, n in enumerate(counts) if n > 0 and (shape.test is None or n > 4)]
    if shape.limit is None:
        return {frozenset(map(str, rows))}
    sign, k = (-1 if shape.keys[0].descending else 1), min(shape.limit, len(rows))
    last = sorted(sign * counts[i] for i in rows)[:k]
    sets = {frozenset(one) for one in product(rows, repeat=k) if len(set(one)) == k}
    return {
        frozenset(map(str, one)) for one in sets if sorted(sign * counts[i] for i in one) == last
    }


@pytest.mark.parametrize("shape", [HAVING, FIRST, LEAST, BOTH])
def test_every_choice_that_counts_in_the_intervals_make_is_possible(shape: Shape) -> None:
    """By brute force, over all whole counts in intervals about seeded ones."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        lows = rng.integers(-1, 7, 4)
        ends = [(int(low), int(low + rng.integers(0, 3))) for low in lows]
        parts = [[KnownPart((a + b) / 2, a, b)] for a, b in ends]
        inner = of_shape(shape, 4)
        possible = inner.possible(parts)
        assert possible is not None
        for counts in product(*(range(max(a, 0), b + 1) for a, b in ends)):
            assert true_choices(shape, counts) <= set(possible)


def test_groups_that_are_told_apart_leave_one_choice() -> None:
    exact = [[KnownPart(n, n, n)] for n in (9.0, 2.0, 3.0, 5.0)]
    assert of_shape(HAVING, 4).possible(exact) == (frozenset({"0", "3"}),)
    assert of_shape(FIRST, 4).possible(exact) == (frozenset({"0", "3"}),)
    assert of_shape(LEAST, 4).possible(exact) == (frozenset({"1"}),)
    for shape in (HAVING, FIRST, LEAST, BOTH):
        inner = of_shape(shape, 4)
        assert inner.possible(exact) == (inner.chosen(exact),)


def test_equal_numbers_are_ordered_by_the_groups_behind_them() -> None:
    """The first group has no record, so the places of the others are not those of the table."""
    by = (SortKey(0, descending=True), SortKey(None, ranks=(0, 3, 1, 2)))
    exact = [[KnownPart(n, n, n)] for n in (0.0, 5.0, 5.0, 5.0)]
    assert of_shape(Shape(keys=by, limit=2), 4).chosen(exact) == frozenset({"2", "3"})


def test_too_many_groups_in_doubt_are_no_choices() -> None:
    open_ = [[KnownPart(5.0, 3.0, 7.0)]] * 7
    assert of_shape(HAVING, 7).possible(open_) is None
    assert of_shape(HAVING, 6).possible(open_[:6]) is not None


DELTA, OF_CHOICE, N_RUNS = 0.05, 0.15, 1500
LEAST_HELD = 0.95 - 3.5 * (0.05 * 0.95 / N_RUNS) ** 0.5
"""Passed by luck in one of 4,000 suites where an interval holds in .95 of all runs."""


def held(truth: Sequence[float], shape: Shape, given: Sequence[int]) -> tuple[float, float]:
    """How often the sum of the given groups is in the hull, and in the chosen groups' interval."""
    rng, t, n = np.random.default_rng(11), np.array(truth), len(truth)
    half = 3.0 * np.log(n / (OF_CHOICE * DELTA))
    draws = np.abs(np.cumsum(rng.laplace(0.0, 3.0, (200_000, n)), axis=1))
    ends = [0.0, *np.quantile(draws, 1.0 - (1.0 - OF_CHOICE) * DELTA, axis=0)]
    inner, true, in_hull, in_own = of_shape(shape, n), t[list(given)].sum(), 0, 0
    for noisy in t + rng.laplace(0.0, 3.0, (N_RUNS, n)):
        parts = [[KnownPart(y, y - half, y + half)] for y in noisy]
        errors = [
            (sum(noisy[int(i or 0)] for i in one) - true, ends[len(one)])
            for one in (inner.chosen(parts), *(inner.possible(parts) or ()))
        ]
        in_own += abs(errors[0][0]) <= errors[0][1]
        is_in = min(e - h for e, h in errors) <= 0.0 <= max(e + h for e, h in errors)
        in_hull += is_in or inner.possible(parts) is None
    return in_hull / N_RUNS, in_own / N_RUNS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("truth", "shape", "given", "is_near"),
    [
        ((300, 250, 200, 9, 0, 0), HAVING, (0, 1, 2, 3), False),
        ((300, 250, 26, 26, 0, 0), HAVING, (0, 1, 2, 3), False),
        ((300, 250, 4.4, 4.4, 3.6, 0), HAVING, (0, 1, 2, 3), True),
        ((300, 250, 240, 20, 0, 0), FIRST, (0, 1), False),
        ((300, 101, 100, 99, 0, 0), FIRST, (0, 1), False),
    ],
)
def test_the_hull_over_all_possible_choices_holds_as_often_as_it_says(
    truth: tuple[float, ...], shape: Shape, given: tuple[int, ...], *, is_near: bool
) -> None:
    """The sum of the counts that choose: their own noise decides which are summed."""
    in_hull, in_own = held(truth, shape, given)
    assert in_hull >= LEAST_HELD
    assert not is_near or in_own < LEAST_HELD  # without the hull it does not


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ("SELECT region FROM people WHERE age > 22", "choose groups by a count"),
        ("SELECT region FROM people GROUP BY region", "choose groups by a count"),
        ("SELECT region FROM people GROUP BY 1 HAVING AVG(age) > 22", "by counts of records"),
        ("SELECT region, age FROM people GROUP BY 1, 2 HAVING COUNT(*) > 2", "select one group"),
        ("SELECT COUNT(*) FROM people GROUP BY region HAVING COUNT(*) > 2", "select one group"),
        ("SELECT region FROM people GROUP BY 1 ORDER BY 1 LIMIT 2", "choose groups by a count"),
        ("SELECT region FROM people GROUP BY 1 ORDER BY COUNT(*) LIMIT 2 OFFSET 1", "HAVING, or"),
        ("SELECT age FROM people GROUP BY 1 HAVING COUNT(*) > 2", "compare `region`"),
        (
            "SELECT region FROM people WHERE age IN (SELECT age FROM people GROUP BY 1 HAVING "
            "COUNT(*) > 2) GROUP BY 1 HAVING COUNT(*) > 2",
            "Ask the innermost SELECT first",
        ),
        ("SELECT region FROM people WHERE age > 99 GROUP BY 1 HAVING COUNT(*) > 2", "some group"),
    ],
)
def test_a_select_that_tells_no_groups_is_refused(inner: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        read(f"SELECT COUNT(*) FROM people WHERE region IN ({inner})")


@pytest.mark.parametrize("tail", ["INDEPENDENT", "WITHIN 5 AT MOST 1", "BY CONVOLUTION"])
def test_what_has_no_meaning_for_a_choice_is_refused(tail: str) -> None:
    inner = "SELECT region FROM people GROUP BY region HAVING COUNT(*) > 2"
    with pytest.raises(SqlError, match="Ask the inner SELECT first"):
        read(f"SELECT COUNT(*) FROM people WHERE region IN ({inner}) {tail}")
    with pytest.raises(SqlError, match="PROBABILITY"):
        read(f"SELECT PROBABILITY(COUNT(*) > 3) FROM people WHERE region IN ({inner})")


def test_a_length_is_for_the_counts_of_the_inner_select_where_units_differ() -> None:
    inner = "SELECT region FROM people GROUP BY region HAVING COUNT(*) > 2"
    text = f"SELECT {{}} FROM people WHERE region IN ({inner}) WITHIN 9"
    assert read(text.format("COUNT(*)")).has_lengths
    assert not read(text.format("AVG(age)")).has_lengths
    both = read(text.format("AVG(age) WITHIN 2"))
    assert both.has_lengths
    assert both.inner[0].statement.has_lengths
