"""Statements as questions: lengths, confidences, and intervals of quotients that hold."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qserver.errors import SqlError
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.query.linear_query import total_query
from qserver.query.sql.cells import StatementQuestions, cell_value, consistent_value
from qserver.query.sql.statement import Ratio
from qserver.query.sql.statistics.smooth_functions import QuotientOf
from qserver.query.sql.tables.cell_intervals import (
    CellInterval,
    centred,
    quotient_interval,
)
from tests.query.sql.at_most import at_most
from tests.query.sql.people import DOMAIN, People, read

N_TRIALS = 2000
CONFIDENCE = 0.8
# A proportion of trials that hold is below this less than once in a million runs, at 0.8 each.
LEAST_HELD = 0.757
numbers = st.integers(-20, 20)


def asked_of(text: str) -> StatementQuestions:
    return at_most(read(text))


def ratio(text: str) -> Ratio:
    cell = read(text).rows[0].cells[0]
    assert isinstance(cell, Ratio)
    return cell


def test_within_is_a_half_width() -> None:
    [question] = asked_of("SELECT COUNT(*) FROM people WITHIN 50 CONFIDENCE 0.9").questions
    assert (question.requirement.length, question.requirement.confidence) == (100.0, 0.9)


def test_consistent_is_a_clause_in_any_place() -> None:
    text = "SELECT COUNT(*) FROM people WITHIN 50 consistent CONFIDENCE 0.9"
    assert asked_of(text).statement.clauses.consistent
    assert not asked_of("SELECT COUNT(*) FROM people WITHIN 5").statement.clauses.consistent


@pytest.mark.parametrize(
    ("part", "denominator", "value"),
    [(30.0, 40.0, 0.75), (0.0, 40.0, 0.0), (1.0, 0.0, None), (1e308, 1e-308, None)],
)
def test_a_consistent_quotient_is_that_of_one_table(
    part: float, denominator: float, value: float | None
) -> None:
    """A quotient is asked about its middle: the part is the numerator less half the denominator."""
    text = "SELECT COUNT_IF(age = 23) / COUNT(*) FROM people WITHIN 0.1 ASSUMING 100"
    cell, estimates = asked_of(text).cells[0][0], [0.0, 0.0]
    over, under = cell.parts
    assert isinstance(cell.function, QuotientOf)
    estimates[under] = denominator
    estimates[over] = part - float(cell.function.middle) * denominator
    assert consistent_value(cell, estimates) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("clauses", "length", "confidence"),
    [
        ("WITHIN 0.5", 1.0, 0.95),
        ("WITHIN 5 PERCENT OF 48842 CONFIDENCE 99 PERCENT", 4884.2, 0.99),
        ("CONFIDENCE 0.5 WITHIN 5 % OF 10;", 1.0, 0.5),
        ("within 3 confidence 0.999 simultaneous", 6.0, 0.999),
    ],
)
def test_the_clauses_mean_what_they_say(clauses: str, length: float, confidence: float) -> None:
    [question] = asked_of(f"SELECT COUNT(*) FROM people {clauses}").questions
    assert question.requirement.length == pytest.approx(length, rel=1e-12)
    assert question.requirement.confidence == pytest.approx(confidence, rel=1e-12)


def test_without_within_a_statement_is_refused() -> None:
    with pytest.raises(SqlError, match="WITHIN 50 CONFIDENCE"):
        asked_of("SELECT COUNT(*) FROM people")


def test_one_question_is_asked_once() -> None:
    found = asked_of("SELECT COUNT(*), COUNT(1), SUM(age) WITHIN 9 FROM people WITHIN 5")
    assert len(found.questions) == 2
    assert [cell.main for cell in found.cells[0]] == [0, 0, 1]


def test_the_parts_of_a_quotient_suffice_for_the_ages_of_one_half() -> None:
    """100 people of 20 to 23 are 2 from the middle of all ages: both parts fit the room of 200.

    They fill it but for what a quotient by so few is from linear.
    """
    found = asked_of("SELECT AVG(age) FROM people WITHIN 2 CONFIDENCE 0.9 ASSUMING AT LEAST 100")
    part, denominator = found.questions
    assert part.requirement.confidence == denominator.requirement.confidence == 0.9
    halves = [q.requirement.half_width for q in found.questions]
    assert 140.0 < halves[0] + 2.0 * halves[1] <= 202.0
    assert denominator.query == total_query(DOMAIN.sizes)


def test_a_quotient_is_asked_for_the_least_denominator_that_is_known_or_stated() -> None:
    text = "SELECT AVG(age) FROM people WITHIN 2"
    stated = asked_of(f"{text} ASSUMING AT LEAST 1000").questions
    assert asked_of(text).questions == stated
    lengths = [
        at_most(read(text), fewest=fewest).questions[0].requirement.length
        for fewest in (100.7, 2500.0)  # few that are known are not measured as if they were one
    ]
    assert lengths[0] == stated[0].requirement.length
    assert lengths[1] == pytest.approx(2.5 * lengths[0], rel=1e-9)


def test_shares_of_a_total_are_asked_of_each_group_apart() -> None:
    """About a half they would be sums over the records of all groups, which all would pay for."""
    share = "SELECT region, COUNT(*) / SUM(COUNT(*)) OVER () FROM people GROUP BY region WITHIN 0.1"
    average = "SELECT region, AVG(age) FROM people GROUP BY region WITHIN 1"
    for text, middle in ((share, 0), (average, Fraction(47, 2))):
        functions = [row[0].function for row in asked_of(text).cells]
        assert all(isinstance(one, QuotientOf) and one.middle == middle for one in functions)


def test_a_quotient_is_asked_about_the_number_that_costs_least() -> None:
    """Most indices are far from the middle of all that single records may have.

    If all ages were alike often this one would be the number of ages over the sum of weights.
    """
    index = centred(ratio("SELECT COUNT(*) / SUM(21 * age - 419) FROM people"))
    alike = Fraction(8, sum(21 * age - 419 for age in range(20, 28)))
    assert abs(index.middle - alike) < Fraction(1, 1000)
    share = centred(ratio("SELECT COUNT_IF(age < 22) / COUNT(*) FROM people"))
    average = centred(ratio("SELECT AVG(age) FROM people"))
    assert (share.middle, average.middle) == (Fraction(1, 2), Fraction(47, 2))


@pytest.mark.parametrize(
    ("item", "bounds"),
    [
        ("COUNT(*) FILTER (WHERE age < 22) / COUNT(*)", (0, 1)),
        ("100 * COUNT(*) FILTER (WHERE age < 22) / COUNT(*)", (0, 100)),
        ("SUM(age) / COUNT(*)", (20, 27)),
        ("SUM(age) FILTER (WHERE age > 24) / COUNT(*) FILTER (WHERE age > 23)", (0, 27)),
        ("COUNT(*) / COUNT(*) FILTER (WHERE age < 22)", None),
        ("COUNT(*) / (COUNT(*) - 2 * COUNT(*) FILTER (WHERE age < 22))", None),
        ("COUNT(*) / (COUNT(*) - COUNT(*))", None),
    ],
)
def test_public_bounds_are_those_of_single_records(
    item: str, bounds: tuple[int, int] | None
) -> None:
    shape = centred(ratio(f"SELECT {item} FROM people"))
    found = None if shape.bounds is None else tuple(shape.middle + e for e in shape.bounds.whole)
    assert found == bounds


@given(numbers, numbers, numbers, numbers)
def test_a_quotients_interval_holds_every_quotient_and_no_more(
    a: int, b: int, c: int, d: int
) -> None:
    part, under = CellInterval(*sorted((a, b))), CellInterval(*sorted((c, d)))
    shape = centred(ratio("SELECT COUNT(*) / COUNT(*) FILTER (WHERE age < 22) FROM people"))
    found = quotient_interval(part, under, middle=shape.middle, bounds=shape.bounds)
    assert under.low is not None
    assert under.high is not None
    if under.low <= 0 <= under.high:
        assert found == CellInterval(None, None)
        return
    ends = [shape.middle + Fraction(n, m) for n in sorted((a, b)) for m in (c, d)]
    assert found.low is not None
    assert found.high is not None
    assert Fraction(found.low) <= min(ends) <= Fraction(math.nextafter(found.low, math.inf))
    assert Fraction(math.nextafter(found.high, -math.inf)) <= max(ends) <= Fraction(found.high)


@pytest.mark.parametrize(
    ("part", "denominator", "expected"),
    [
        ((-9, 9), (-1, 5), (20, 27)),
        ((-9, 9), (4, 5), (21.25, 25.75)),
        # Noise carried it over a bound: half of its length stays.
        ((14, 30), (4, 5), (27 - (30 / 4 - 14 / 5) / 2, 27)),
        # No record by what is known, or less.
        ((1, 2), (-5, -4), (20, 27)),
        # An interval that missed, since nothing within the bounds is left: they are still sure.
        ((90, 95), (4, 5), (20, 27)),
    ],
)
def test_an_average_stays_within_its_public_bounds(
    part: tuple[int, int], denominator: tuple[int, int], expected: tuple[float, float]
) -> None:
    shape = centred(ratio("SELECT AVG(age) FROM people"))
    assert (shape.middle, shape.width) == (Fraction(47, 2), 7)
    found = quotient_interval(
        CellInterval(*part), CellInterval(*denominator), middle=shape.middle, bounds=shape.bounds
    )
    assert found == CellInterval(*expected)


@pytest.mark.slow
@pytest.mark.parametrize("item", ["AVG(age)", "COUNT_IF(age < 23) / COUNT_IF(age < 26)"])
def test_intervals_of_quotients_hold_as_often_as_they_say(item: str, people: People) -> None:
    """All sums' intervals at once; the narrow control must fail."""
    found = asked_of(
        f"SELECT {item} FROM people WITHIN 0.4 CONFIDENCE {CONFIDENCE} ASSUMING 150 SIMULTANEOUS"
    )
    cell = found.cells[0][0]
    assert isinstance(cell.function, QuotientOf)
    truths = [float(people.value(q.query)) for q in found.questions]
    expected = float(cell.function.middle) + truths[0] / truths[1]
    held, short, wide = (
        _share_held(found, truths, expected, factor=factor) for factor in (1.0, 0.35, 1.5)
    )
    assert held >= LEAST_HELD
    assert short < LEAST_HELD
    assert wide > held
    value = cell_value(
        cell, dict(enumerate(truths)), {i: CellInterval(t, t) for i, t in enumerate(truths)}
    )
    assert value.estimate == pytest.approx(expected, rel=1e-12)


def _share_held(
    found: StatementQuestions, truths: list[float], expected: float, *, factor: float
) -> float:
    """How often the interval holds the truth, the parts' intervals `factor` times as long."""
    rng = random.Random(11)
    cell = found.cells[0][0]
    n_held = 0
    for _ in range(N_TRIALS):
        estimates, intervals = dict[int, float](), dict[int, CellInterval]()
        for i, (question, truth) in enumerate(zip(found.questions, truths, strict=True)):
            half = question.requirement.half_width
            scale = half / LaplaceSum([1.0]).half_width(question.requirement.confidence)
            noise = rng.expovariate(1 / scale) * rng.choice((-1, 1))
            estimates[i] = truth + noise
            ends = (truth + noise - factor * half, truth + noise + factor * half)
            intervals[i] = CellInterval(*ends)
        interval = cell_value(cell, estimates, intervals).interval
        assert interval.low is not None
        assert interval.high is not None
        n_held += interval.low <= expected <= interval.high
    return n_held / N_TRIALS


def test_quotients_in_groups_ask_for_both_parts_of_each_group() -> None:
    text = (
        "SELECT region, AVG(age) WITHIN 2, COUNT(*) FROM people GROUP BY region WITHIN 2 "
        "ASSUMING 30"
    )
    found = asked_of(text)
    assert {q.requirement.confidence for q in found.questions} == {0.95}
    assert len(found.questions) == 4 * 2
    for average, count in found.cells:
        assert average.parts[1] == count.main
        assert found.questions[count.main].requirement.length == 4.0
