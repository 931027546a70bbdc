"""What was spent over time, and how long the rest lasts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.ledger.forecast import DAY_S, SpendPoint, forecast, spent_at, thinned

NOW = 1_800_000_000


def points(*pairs: tuple[int, int]) -> list[SpendPoint]:
    return [SpendPoint(at, spent) for at, spent in pairs]


def test_the_pace_of_the_last_week_says_how_long_the_rest_lasts() -> None:
    """10 before the week, 80 by now: 70 in seven days is 10 a day, and 50 last five days."""
    spent = points((NOW - 30 * DAY_S, 10), (NOW - 6 * DAY_S, 40), (NOW - DAY_S, 80))
    found = forecast(spent, now=NOW, spent_nano=80, remaining_nano=50)
    assert (found.window_s, found.spent_nano) == (7 * DAY_S, 70)
    assert found.spent_nano / found.window_s * DAY_S == pytest.approx(10)
    assert found.days_left == pytest.approx(5)


def test_a_young_budget_is_judged_by_its_age_but_by_a_day_at_least() -> None:
    minute = forecast(points((NOW - 60, 20)), now=NOW, spent_nano=20, remaining_nano=60)
    assert (minute.window_s, minute.days_left) == (DAY_S, pytest.approx(3))
    older = forecast(points((NOW - 3 * DAY_S, 30)), now=NOW, spent_nano=30, remaining_nano=60)
    assert older.window_s == 3 * DAY_S


def test_without_spending_lately_there_is_no_end() -> None:
    spent = points((NOW - 30 * DAY_S, 10))
    assert forecast(spent, now=NOW, spent_nano=10, remaining_nano=5).days_left is None
    assert forecast([], now=NOW, spent_nano=0, remaining_nano=5).days_left is None


def test_nothing_left_lasts_no_time() -> None:
    assert forecast(points((NOW, 9)), now=NOW, spent_nano=9, remaining_nano=0).days_left == 0


def test_what_had_been_spent_at_a_moment_is_the_last_point_up_to_it() -> None:
    spent = points((10, 1), (20, 2))
    assert [spent_at(spent, t) for t in (9, 10, 19, 20, 99)] == [0, 1, 1, 2, 2]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=80),
    st.integers(2, 20),
)
def test_thinning_keeps_the_ends_the_order_and_only_rises(
    steps: list[tuple[int, int]], n_most: int
) -> None:
    at, spent, given_points = 0, 0, []
    for wait, rise in steps:
        at, spent = at + wait, spent + rise
        given_points.append(SpendPoint(at, spent))
    kept = thinned(given_points, n_most)
    assert len(kept) <= n_most
    assert [p.at for p in kept] == sorted({p.at for p in kept})
    assert all(a.spent_nano < b.spent_nano for a, b in pairwise(kept))
    if given_points:
        assert kept[-1].spent_nano == given_points[-1].spent_nano
        first = given_points[0].at
        assert kept[0] == SpendPoint(first, spent_at(given_points, first))
    for point in kept:
        assert spent_at(given_points, point.at) == point.spent_nano
