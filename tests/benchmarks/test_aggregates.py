"""The benchmarks of extremes and of a median: what they count, and the kept figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.results import kept
from tests.benchmarks.test_benchmarks import quick_document


@pytest.mark.whole
def test_intervals_of_functions_of_sums_are_counted_for_every_design(tmp_path: Path) -> None:
    """Five runs each, by fixed seeds."""
    rows = quick_document("aggregates", tmp_path)["rows"]
    assert {(row["stated"], row["runs"]) for row in rows} == {(0.95, 5)}
    assert {row["sums"] for row in rows} == {"alone", "table"}
    assert all(float(row["share"]) >= 0.6 for row in rows)


def test_the_kept_intervals_hold_as_often_as_they_say() -> None:
    rows = kept("aggregates")["rows"]
    assert {row["runs"] for row in rows} == {10_000}
    assert min(float(row["share"]) for row in rows) >= 0.95


@pytest.mark.whole
def test_a_median_is_priced_and_held_on_a_whole_server(tmp_path: Path) -> None:
    rows = quick_document("adult_median", tmp_path)["rows"]
    assert [row["within"] for row in rows] == [1.0, 0.5]
    assert rows[0]["most_cost"] > 0
    for row in rows:
        # Noise may make the first median so exact that the second is free.
        assert row["most_cost"] <= row["at_most"]
        assert row["again"] <= row["at_most"]


def test_the_kept_median_within_one_year_costs_no_more_than_the_aim() -> None:
    row = next(row for row in kept("adult_median")["rows"] if row["within"] == 1.0)
    assert row["runs"] >= 12
    assert row["most_cost"] <= 0.02
