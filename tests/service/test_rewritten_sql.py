"""Totals, shares, ranks and added numbers on a real deployment: their intervals and prices."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from qserver.api.bodies.workloads_and_sql import SqlBody
from qserver.query.sql.cells import CellValue
from qserver.query.sql.shaping.ranks import Rank, ranked
from qserver.query.sql.tables.cell_intervals import CellInterval
from tests.deployment import ROWS, Deployment
from tests.service.test_statements import SURE, answered, explained, interval, spent

BY_AGE = "SELECT age, COUNT(*) AS n FROM people GROUP BY age"
N = len(ROWS)
WOMEN = sum(sex == "Female" for _, sex in ROWS)


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


def test_what_a_with_says_costs_what_the_conditions_cost(town: Deployment) -> None:
    plain = f"SELECT COUNT(*) FROM people WHERE sex = 'Female' AND age > 22 WITHIN 20 {SURE}"
    named = (
        "WITH women AS (SELECT age AS years FROM people WHERE sex = 'Female') "
        f"SELECT COUNT(*) FROM women WHERE years > 22 WITHIN 20 {SURE}"
    )
    assert explained(town, plain).price_nano == explained(town, named).price_nano > 0
    first = answered(town, plain)
    before = spent(town)
    again = answered(town, named)
    assert again.cells[0][0].value == first.cells[0][0].value
    assert spent(town) == before


def test_a_number_that_is_added_moves_the_interval(town: Deployment) -> None:
    text = f"SELECT {{}} AS n FROM people WITHIN 20 {SURE}"
    low, high = interval(answered(town, text.format("COUNT(*)")))
    before = spent(town)
    found = answered(town, text.format("1000 - COUNT(*)"))
    assert interval(found) == (pytest.approx(1000 - high), pytest.approx(1000 - low))
    assert spent(town) == before


def test_totals_stand_below_their_groups_as_null(town: Deployment) -> None:
    found = answered(
        town, f"SELECT sex, COUNT(*) FROM people GROUP BY ROLLUP (sex) WITHIN 20 {SURE}"
    )
    rows = SqlBody.of(found).model_dump(mode="json")["table"]["rows"]
    assert [row["group"] for row in rows] == [["Female"], ["Male"], [None], [None]]
    assert [row["together"] for row in rows] == [[], [], [], [0]]
    low, high = rows[3]["cells"][0]["interval"]
    assert low <= N <= high


@pytest.mark.slow
def test_a_share_of_all_groups_holds(town: Deployment) -> None:
    text = (
        "SELECT sex, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM people GROUP BY sex "
        f"WITHIN 0.1 {SURE} ASSUMING AT LEAST 300"
    )
    found = answered(town, text)
    low, high = interval(found)
    assert low <= WOMEN / N <= high


def test_ranks_have_intervals_that_hold_at_once_and_cost_nothing(town: Deployment) -> None:
    text = BY_AGE.replace("AS n", "AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place")
    whole = answered(town, f"{BY_AGE} WITHIN 2 {SURE}")
    before = spent(town)
    found = answered(town, f"{text} ORDER BY place LIMIT 3 WITHIN 2 {SURE}")
    assert spent(town) == before
    assert found.asked.statement.columns == ("n", "place")
    n_groups = len(whole.cells) - 1  # the missing ages have no rank
    for row in found.cells:
        low, high = row[1].value.interval.low, row[1].value.interval.high
        # All ages have the same number of people, so no rank among them is known.
        assert (row[1].value.estimate, low, high) == (None, 1.0, n_groups)
    [last] = answered(town, f"{text} ORDER BY place DESC LIMIT 1 WITHIN 2 {SURE}").cells
    ends = last[1].value.interval
    assert (last[1].value.estimate, ends.low, ends.high) == (None, 1.0, n_groups)
    SqlBody.of(found)
    *_, missing = answered(town, f"{text} WITHIN 2 {SURE}").cells
    assert missing[1].value == CellValue(None, CellInterval(None, None))


def test_what_has_no_other_row_is_null_and_is_not_ranked(town: Deployment) -> None:
    more = "COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY age)"
    text = (
        f"SELECT age, {more} AS more, RANK() OVER (ORDER BY {more}) AS place FROM people "
        "WHERE age < 23 GROUP BY age WITHIN 20"
    )
    found = answered(town, text)
    nothing = CellValue(None, CellInterval(None, None))
    assert [row.group[0] for row in found.asked.statement.rows] == ["20", "21", "22"]
    assert [cell.value for cell in found.cells[0]] == [nothing, nothing]
    first = SqlBody.of(found).model_dump(mode="json")["table"]["rows"][0]["cells"][0]
    assert (first["estimate"], first["interval"]) == (None, [None, None])
    for row in found.cells[1:]:
        low, high = row[0].value.interval.low, row[0].value.interval.high
        assert low is not None
        assert high is not None
        assert high - low == pytest.approx(40)


def test_what_follows_from_a_rank_holds_and_costs_nothing(town: Deployment) -> None:
    calls = ("DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()", "NTILE(2)")
    of = ", ".join(f"{call} OVER (ORDER BY COUNT(*) DESC)" for call in calls)
    text = "SELECT sex, COUNT(*){} FROM people WHERE sex <> 'other' GROUP BY sex WITHIN 20"
    answered(town, f"{text.format('')} {SURE}")
    before = spent(town)
    found = answered(town, f"{text.format(', ' + of)} {SURE}")
    assert spent(town) == before
    women, men = ([cell.value for cell in row[1:]] for row in found.cells)
    # There are twice as many women, so nothing of it is in doubt.
    expected = {"women": [1.0, 0.0, 0.5, 1.0], "men": [2.0, 1.0, 1.0, 2.0]}
    assert {"women": [one.estimate for one in women], "men": [one.estimate for one in men]} == (
        expected
    )
    assert all(one.interval == CellInterval(one.estimate, one.estimate) for one in (*women, *men))


def test_a_rank_within_a_partition_is_among_its_rows_alone(town: Deployment) -> None:
    text = (
        "SELECT sex, age, ROW_NUMBER() OVER (PARTITION BY sex ORDER BY COUNT(*)) AS k "
        f"FROM people WHERE age < 23 GROUP BY sex, age WITHIN 20 {SURE}"
    )
    found = answered(town, text)
    assert found.asked.statement.columns == ("COUNT(*)", "k")
    by_sex: dict[str | None, set[CellInterval]] = {}
    for row, cells in zip(found.asked.statement.rows, found.cells, strict=True):
        by_sex.setdefault(row.group[0], set()).add(cells[1].value.interval)
    assert by_sex.pop(None) == {CellInterval(None, None)}
    # There are three ages of each sex, and about as many people of each.
    assert set(map(frozenset, by_sex.values())) == {frozenset({CellInterval(1.0, 3.0)})}


def test_ranks_hold_for_every_table_within_the_intervals() -> None:
    """Every true table that the intervals allow, on a grid, has its ranks within theirs."""
    rng = random.Random(7)
    for _ in range(50):
        middles = [rng.randrange(0, 12) for _ in range(4)]
        ends = [(float(m - rng.randrange(0, 3)), float(m + rng.randrange(0, 3))) for m in middles]
        rank = Rank("r", 0, descending=rng.random() < 0.5, parties=(0, 0, 1, 0))
        found = ranked([float(m) for m in middles], ends, rank)
        for true in itertools.product(*(range(int(a), int(b) + 1) for a, b in ends)):
            for i, one in enumerate(found):
                others = [true[j] for j in range(4) if rank.parties[j] == rank.parties[i]]
                n = sum(t > true[i] if rank.descending else t < true[i] for t in others)
                assert one.low <= 1 + n <= one.high


def test_what_is_not_known_has_no_rank() -> None:
    rank = Rank("r", 0, descending=True, parties=(0, 0, 0))
    found = ranked([5.0, None, 9.0], [(4.0, 6.0), (None, None), (8.0, 10.0)], rank)
    assert [one.estimate for one in found] == [2.0, None, 1.0]
    assert [(one.low, one.high) for one in found] == [(2.0, 3.0), (1.0, 3.0), (1.0, 2.0)]


@pytest.mark.slow
def test_columns_are_as_exact_as_each_says(town: Deployment) -> None:
    text = (
        "SELECT COUNT(*) WITHIN 30 CONFIDENCE 99.9998 AS n, AVG(age) WITHIN 1 FROM people "
        f"ASSUMING AT LEAST 300 {SURE}"
    )
    found = answered(town, text)
    ages = [age for age, _ in ROWS]
    for k, (truth, half) in enumerate([(N, 30.0), (sum(ages) / N, 1.0)]):
        low, high = interval(found, column=k)
        assert low <= truth <= high
        # Longer than asked only where released answers disagree.
        assert high - low <= 2 * half * 1.5
    body = SqlBody.of(found).model_dump(mode="json")["table"]
    assert (body["confidence"], body["confidences"]) == (0.999998, [0.999998, 0.999999])


@pytest.mark.slow
def test_two_percent_of_a_count_cost_less_than_at_worst(town: Deployment) -> None:
    text = f"SELECT COUNT(*) FROM people WITHIN 10 PERCENT ASSUMING AT LEAST 100 {SURE}"
    price = explained(town, text)
    assert price.is_most
    found = answered(town, text)
    low, high = interval(found)
    assert low <= N <= high
    estimate = found.cells[0][0].value.estimate
    assert estimate is not None
    # Longer than asked only where released answers disagree.
    assert (high - low) / 2 <= 0.1 * estimate * 1.5
    assert 0 < spent(town) < price.price_nano / 2
    before = spent(town)
    assert answered(town, text).cells[0][0].value == found.cells[0][0].value
    assert spent(town) == before
