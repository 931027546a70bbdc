"""Other systems are asked at the accuracy that is stated, and their misses are counted."""

from __future__ import annotations

import math
from pathlib import Path

import duckdb
import numpy as np
import pytest

from tests.benchmarks.peer.statements import Statement, Truth, workloads
from tests.benchmarks.peers import Said, _row
from tests.benchmarks.test_benchmarks import quick_document

SMALL = "CREATE TABLE adult AS SELECT unnest(['a', 'a', 'b']) AS sex, unnest([20, 21, 60]) AS age"


def truth_of(text: str) -> Truth:
    connection = duckdb.connect(":memory:")
    connection.execute(text)
    return Truth(Path("nowhere"), connection)


def test_a_number_is_missed_where_its_interval_or_its_group_is_missing() -> None:
    counts = Statement("count", 1, by="sex")
    said = [
        Said(counts, {"a": (1.5, 2.0), "b": (1.0, 3.0)}, 0.25, 0.010),
        Said(counts, {"a": (2.5, 4.5)}, 0.5, 0.020),
    ]
    row = _row("w", "s", said, truth_of(SMALL))
    assert (row["numbers"], row["missed"], row["epsilon"]) == (4, 2, 0.75)
    assert row["cpu_ms"] == pytest.approx(15)


def test_every_system_is_asked_for_the_same_numbers() -> None:
    text = 'SELECT sex, AVG("hours-per-week") AS x FROM adult GROUP BY sex'
    mean = Statement("mean", 1, "hours_per_week", "sex", least=10_000)
    assert mean.ours == f"{text} WITHIN 1 ASSUMING AT LEAST 10000"
    assert mean.sql.replace("hours_per_week", '"hours-per-week"') == text
    counts = workloads(quick=False)["30 overlapping counts"]
    assert len({one.sql for one in counts}) == 30
    assert all(one.conditions in one.sql for one in counts)


def test_a_count_costs_what_a_laplace_interval_does() -> None:
    found = truth_of(SMALL).document(Statement("count", 100, by="sex"))
    assert found["epsilon"] == pytest.approx(math.log(20) / 100)
    assert found["keys"] == ["a", "b"]


def test_ranks_of_a_median_are_those_up_to_the_first_value_that_misses_it() -> None:
    """Of 100 records 10 each are 40 to 49: within 2 of the median 44 lie 42 to 46, 50 of them."""
    table = "CREATE TABLE adult AS SELECT 40 + range // 10 AS age, 'a' AS sex FROM range(100)"
    connection = truth_of(table).connection
    connection.execute("UPDATE adult SET age = 44 WHERE age = 45")
    truth = Truth(Path("nowhere"), connection)
    epsilon = truth.document(Statement("median", 2, "age"))["epsilon"]
    # Below 42 are 20 of the first 50; up to 46 are 70: 20 beyond the middle.
    assert epsilon == pytest.approx(math.log(74 / 0.05) / 20)


@pytest.mark.slow
def test_averages_err_by_no_more_than_is_stated_in_95_of_100_draws() -> None:
    """Other draws than those that chose epsilon; 20,000 of them err by .0016."""
    mean = Statement("mean", 1, "hours_per_week", "sex", least=10_000)
    asked = truth_of("CREATE TABLE adult AS SELECT 'a' AS sex, 40 AS hours_per_week").document(mean)
    generator, n = np.random.default_rng(1), 10_000
    noise = generator.laplace(size=(2, 20_000))

    def share(spread: float, of_sum: float, of_count: float, about: float) -> float:
        totals = about * n + noise[0] * spread / of_sum
        errors = totals / (n + noise[1] / of_count) - about
        return float(np.mean(abs(errors) <= mean.half))

    half = asked["epsilon"] / 2
    assert share(49, asked["epsilon_sum"], asked["epsilon_count"], 9.6) == pytest.approx(
        0.95, abs=8e-3
    )
    assert share(49, half, half, 9.6) == pytest.approx(0.95, abs=8e-3)
    each = asked["epsilon_each"]
    assert share(99, each, each, 40.4) == pytest.approx(0.95, abs=8e-3)
    assert asked["epsilon_sum"] + asked["epsilon_count"] < asked["epsilon"] < 2 * each


@pytest.mark.whole
def test_ours_is_charged_once_and_nearly_all_its_intervals_hold(tmp_path: Path) -> None:
    rows = quick_document("peers", tmp_path)["rows"]
    assert {row["system"] for row in rows} == {"qserver"}
    # Of 37 numbers 10 miss with probability 1e-5.
    assert sum(row["missed"] for row in rows) < 10
    assert all(row["epsilon"] > 0 for row in rows)
