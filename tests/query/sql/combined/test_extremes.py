"""Least and greatest values: what is sure of them, and how often their intervals hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import SqlError
from qserver.query.sql.combined.asked import several_asked
from qserver.query.sql.combined.extreme import Extreme
from qserver.query.sql.combined.function import Combined, KnownPart
from qserver.query.sql.parser import parse_statement
from tests.query.sql.at_most import at_most
from tests.query.sql.people import AGES, DOMAIN, People, read

N = 30
SCALE = 12.0
N_RUNS = 2000
CONFIDENCE = 0.9


def extreme(item: str) -> Extreme:
    [cell] = read(f"SELECT {item} FROM people WITHIN 3").rows[0].cells
    assert isinstance(cell, Combined)
    assert isinstance(cell.function, Extreme)
    return cell.function


def known(counts: list[float], half: float) -> list[KnownPart]:
    return [KnownPart(d, d - half, d + half) for d in counts]


@pytest.mark.parametrize(("item", "duck"), [("MIN(age)", "<="), ("MAX(age)", ">=")])
def test_an_extreme_is_asked_by_the_counts_from_its_end(
    item: str, duck: str, people: People
) -> None:
    text = f"SELECT {item} FROM people WHERE region <> 'North' WITHIN 3"
    statement = parse_statement(text, DOMAIN, dataset="people")
    [cell] = statement.rows[0].cells
    assert isinstance(cell, Combined)
    ages = AGES if duck == "<=" else AGES[::-1]
    for age, query in zip(ages, cell.queries, strict=True):
        [(count,)] = people.duck(
            f"SELECT COUNT(*) FROM people WHERE region <> 'North' AND age {duck} {age}"
        )
        assert people.value(query) == count
    # WITHIN is about these counts.
    lengths = {q.requirement.length for q in at_most(statement).questions}
    assert lengths == {6.0}


@given(st.lists(st.sampled_from(AGES), min_size=1, max_size=9))
def test_without_noise_it_is_the_extreme_itself(ages: list[int]) -> None:
    below = [float(sum(a <= v for a in ages)) for v in AGES]
    above = [float(sum(a >= v for a in ages)) for v in reversed(AGES)]
    for item, counts, truth in (("MIN", below, min(ages)), ("MAX", above, max(ages))):
        found = extreme(f"{item}(age)").value(known(counts, 0.0))
        assert (found.estimate, found.low, found.high) == (truth, truth, truth)


def test_the_value_is_one_that_somebody_surely_reaches() -> None:
    """Counts of 2, 5 and 9 say nothing when they may be off by 10; one of 30 does."""
    counts = [2.0, 5.0, 9.0, 30.0, 50.0, 60.0, 61.0, 61.0]
    least = extreme("MIN(age)").value(known(counts, 10.0))
    assert (least.low, least.estimate, least.high) == (20, 23, 23)
    greatest = extreme("MAX(age)").value(known(counts, 10.0))
    assert (greatest.low, greatest.estimate, greatest.high) == (24, 24, 27)
    # An upper end below 1 rules values out.
    assert extreme("MIN(age)").value(known([0.0, 0.1, *counts[2:]], 0.5)).low == 22


def test_the_ends_are_those_of_bins() -> None:
    counts = [0.0, 30.0, 60.0]
    least = extreme("MIN(income)").value(known(counts, 0.2))
    assert (least.low, least.estimate, least.high) == (10, 24, 24)
    greatest = extreme("MAX(income)").value(known(counts, 0.2))
    assert (greatest.low, greatest.estimate, greatest.high) == (10, 10, 24)


def test_without_a_record_there_is_no_value() -> None:
    found = extreme("MIN(age)").value(known([0.0] * 8, 5.0))
    assert (found.estimate, found.low, found.high) == (None, 20, 27)
    unknown = extreme("MAX(age)").value([KnownPart(0.0, -math.inf, math.inf)] * 8)
    assert (unknown.estimate, unknown.low, unknown.high) == (None, 20, 27)


@pytest.mark.parametrize("n_first", [1, 20, 400])
@pytest.mark.parametrize("of_cells", [False, True])
def test_intervals_hold_at_least_as_often_as_they_say(n_first: int, *, of_cells: bool) -> None:
    """The least value is the fifth, with few records or many; noise of rows or of a table."""
    rng = np.random.default_rng(17)
    cells = np.concatenate([np.zeros(4), [n_first], np.full(N - 5, 15)])
    noise = rng.laplace(0.0, SCALE, (N_RUNS, N))
    errors = noise.cumsum(axis=1) if of_cells else noise
    width = np.quantile(np.abs(errors), CONFIDENCE, axis=0)
    values = tuple(map(int, range(N)))
    function = Extreme(is_greatest=False, firsts=values, lasts=values)  # type: ignore[arg-type]
    held = 0
    for error in errors:
        middles = cells.cumsum() + error
        parts = [KnownPart(m, m - w, m + w) for m, w in zip(middles, width, strict=True)]
        found = function.value(parts)
        held += found.low <= 4 <= found.high
    assert held / N_RUNS >= CONFIDENCE


def test_fewer_thresholds_stand_for_more_values_each() -> None:
    values = tuple(range(100))
    falling = Extreme(is_greatest=True, firsts=values[::-1], lasts=values[::-1])  # type: ignore[arg-type]
    found = falling.fitted(7)
    assert found is not None
    assert (len(found.places), found.places[-1]) == (7, 99)
    assert isinstance(found.function, Extreme)
    firsts, lasts = found.function.firsts, found.function.lasts
    assert [int(v) for v in firsts[1:]] == [int(v) - 1 for v in lasts[:-1]]
    assert (firsts[0], lasts[-1]) == (99, 0)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("MAX(region)", "have numbers there"),
        ("MIN(2 * age)", "one numeric attribute"),
        ("MAX(age, income)", "one attribute"),
        ("MIN(age) WITHIN 2 PERCENT", "in records"),
    ],
)
def test_what_is_no_extreme_of_an_attribute_is_refused(item: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        several_asked(parse_statement(f"SELECT {item} FROM people", DOMAIN, dataset="people"))
