"""The greatest and the least of numbers, and other functions of them, on a real deployment."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from qserver.query.sql.tables.unconfirmed import UnconfirmedError
from qserver.service.statements import Statements
from tests.deployment import ROWS, Deployment
from tests.service.test_statements import SURE, answered, explained, interval, remark_with, spent

AGES = np.array([age for age, _ in ROWS], dtype=float)
BY_SEX = Counter(sex for _, sex in ROWS)
INNER = "(SELECT sex, age, COUNT(*) AS n FROM people GROUP BY sex, age) AS t"


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


@pytest.mark.slow
def test_the_greatest_and_the_least_of_groups_hold_at_the_price_quoted_and_are_then_free(
    town: Deployment,
) -> None:
    text = f"SELECT sex, MAX(n), MIN(n) FROM {INNER} GROUP BY sex WITHIN 4 {SURE}"
    price = explained(town, text)
    found = answered(town, text)
    counts = Counter((sex, age) for age, sex in ROWS)
    for i, sex in enumerate(("Female", "Male")):
        of = [counts[sex, age] for age in range(20, 30)]
        for k, truth in enumerate((max(of), min(of))):
            low, high = interval(found, i, k)
            assert low <= truth <= high
            assert high - low <= 8
    assert 0 < spent(town) <= price.price_nano
    assert "ASSUMING" not in price.asked.statement.source.text
    remark_with(found, "of all groups of the domain, but of missing values")
    before = spent(town)
    assert answered(town, text).cells == found.cells
    free = answered(town, f"SELECT GREATEST(MAX(n), 5) FROM {INNER} WITHIN 4 {SURE}")
    low, high = interval(free)
    assert low <= max(counts.values()) <= high
    assert spent(town) == before


@pytest.mark.slow
def test_a_part_of_the_greatest_group_is_told_in_steps(town: Deployment) -> None:
    text = (
        "SELECT sex, COUNT(*) * 1.0 / MAX(COUNT(*)) OVER () AS part FROM people GROUP BY sex "
        f"WITHIN 0.1 {SURE} ASSUMING AT LEAST 300"
    )
    price = explained(town, text)
    found = answered(town, text)
    for i, sex in enumerate(("Female", "Male")):
        low, high = interval(found, i)
        assert low <= BY_SEX[sex] / max(BY_SEX.values()) <= high
        assert high - low <= 0.2
    assert price.is_most
    assert 0 < spent(town) <= price.price_nano


@pytest.mark.slow
def test_a_distance_needs_no_number_of_records(town: Deployment) -> None:
    """That of two groups which are as large as each other is no smaller group."""
    text = (
        f"SELECT ABS(COUNT_IF(age < 25) - COUNT_IF(age >= 25)) AS gap FROM people WITHIN 5 {SURE}"
    )
    price = explained(town, text)
    found = answered(town, text)
    low, high = interval(found)
    assert low == 0 <= high <= 10
    assert not found.asked.statement.remarks
    assert 0 < spent(town) <= price.price_nano
    other = "SELECT GREATEST(COUNT_IF(age < 22), 2 * COUNT_IF(age < 21)) FROM people"
    with pytest.raises(UnconfirmedError) as caught:
        Statements(town.service()).run("people", other, wait_s=0)
    assert caught.value.words == "WITHIN 200"


@pytest.mark.slow
def test_functions_of_averages_hold_with_what_rounding_hides(town: Deployment) -> None:
    text = f"SELECT EXP(AVG(LN(age))) AS g FROM people WITHIN 0.3 {SURE} ASSUMING AT LEAST 400"
    found = answered(town, text)
    low, high = interval(found)
    binning = found.asked.statement.rows[0].cells[0].binning
    assert binning is not None
    error = float(binning.error)
    assert 0 < error < 0.01
    assert low - error <= math.exp(float(np.log(AGES).mean())) <= high + error
    items = "SKEWNESS(age), KURTOSIS_POP(age)"
    found = answered(town, f"SELECT {items} FROM people WITHIN 0.4 {SURE} ASSUMING AT LEAST 400")
    off = AGES - AGES.mean()
    n, skew = len(AGES), (off**3).mean() / (off**2).mean() ** 1.5
    tails = float((off**4).mean() / (off**2).mean() ** 2 - 3.0)
    truths = (float(skew) * math.sqrt(n * (n - 1)) / (n - 2), tails)
    for k, truth in enumerate(truths):
        low, high = interval(found, column=k)
        assert low <= truth <= high
        assert high - low <= 0.8


@pytest.mark.slow
def test_a_running_part_of_the_greatest_begins_with_all_of_it(town: Deployment) -> None:
    """Fifty people have each age."""
    text = (
        "SELECT age, COUNT(*) * 1.0 / MAX(COUNT(*)) OVER (ORDER BY age) AS part FROM people "
        f"WHERE age < 23 GROUP BY age WITHIN 0.4 {SURE} ASSUMING AT LEAST 40"
    )
    price = explained(town, text)
    found = answered(town, text)
    assert interval(found) == (1.0, 1.0)
    for i in (1, 2):
        low, high = interval(found, i)
        assert low <= 1.0 <= high
    assert 0 < spent(town) <= price.price_nano
