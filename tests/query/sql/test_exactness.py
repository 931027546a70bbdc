"""WITHIN and CONFIDENCE per column, and in percent of the number itself."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from qserver.errors import SqlError
from qserver.query.sql.cells import asked
from qserver.query.sql.exactness import UNSAID, Exactness
from qserver.query.sql.tables.relative_length import KnownSum, RelativeTarget, relatives
from tests.query.sql.at_most import at_most
from tests.query.sql.people import read
from tests.query.sql.stepwise import Part

N_RUNS = 4000
"""Runs of the simulation; with 95 percent coverage its standard error is 0.35 percent."""
LEAST_COVERAGE = 0.94


def test_each_column_has_what_stands_behind_it() -> None:
    statement = read(
        "SELECT region, COUNT(*) WITHIN 100 AS n, AVG(age) WITHIN 1 CONFIDENCE 99, SUM(age) AS s "
        "CONFIDENCE 90 PERCENT FROM people GROUP BY region WITHIN 500 ASSUMING AT LEAST 20"
    )
    assert statement.columns == ("n", "AVG(age)", "s")
    found = [statement.exactness_of(k) for k in range(3)]
    assert found == [
        Exactness(Fraction(100)),
        Exactness(Fraction(1), Fraction(99, 100)),
        Exactness(Fraction(500), Fraction(9, 10)),
    ]
    questions = at_most(statement)
    assert [cell.confidence for cell in questions.cells[0]] == [0.95, 0.99, 0.9]
    assert questions.confidences == (0.95, 0.99, 0.9)
    assert questions.confidence == 0.9
    lengths = [questions.questions[questions.cells[0][k].main].requirement for k in (0, 2)]
    assert [(one.length, one.confidence) for one in lengths] == [(200.0, 0.95), (1000.0, 0.9)]
    parts = [questions.questions[i].requirement.confidence for i in questions.cells[0][1].parts]
    assert parts == [0.99, 0.99]


def test_what_is_said_alike_has_one_confidence() -> None:
    statement = read("SELECT COUNT(*) WITHIN 5, SUM(age) WITHIN 90 FROM people CONFIDENCE 0.9")
    questions = at_most(statement)
    assert (questions.confidence, questions.confidences) == (0.9, None)
    assert [q.requirement.length for q in questions.questions] == [10.0, 180.0]


def test_numbers_may_begin_with_their_point() -> None:
    """As in SQL."""
    statement = read("SELECT AVG(age) * .5 AS a WITHIN .25 CONFIDENCE .9, COUNT(*) FROM people")
    assert statement.exactness_of(0) == Exactness(Fraction(1, 4), Fraction(9, 10))
    with pytest.raises(SqlError, match="name an attribute"):
        read("SELECT COUNT(*) FROM people WHERE people.5 = 3")


def test_an_attribute_called_within_is_no_clause() -> None:
    assert read("SELECT COUNT(*) AS within FROM people").columns == ("within",)


def test_inner_selects_keep_what_stands_behind_their_items() -> None:
    statement = read(
        "SELECT r, n FROM (SELECT region AS r, COUNT(*) AS n WITHIN 7 FROM people GROUP BY 1) AS t"
    )
    assert statement.exactness == (Exactness(Fraction(7)),)
    assert read("SELECT COUNT(*) AS n FROM people").exactness == ()
    assert UNSAID.or_else(Exactness(Fraction(3))) == Exactness(Fraction(3))


def test_a_part_of_a_count_is_asked_as_for_the_least_count() -> None:
    text = "SELECT COUNT(*), SUM(age) WITHIN 9 FROM people WITHIN 2 PERCENT"
    # 1000 where nothing is said.
    stated = at_most(read(text))
    assert [q.requirement.length for q in stated.questions] == [40.0, 18.0]
    statement = read(f"{text} ASSUMING AT LEAST 500")
    assert not statement.exactness_of(0).half_width
    found = at_most(statement)
    assert [q.requirement.length for q in found.questions] == [20.0, 18.0]
    [one] = relatives(statement)
    [first, _] = asked(statement, of_sums={one: 40.0}).questions
    assert first.requirement.length == 80.0


def test_a_part_of_a_quotient_is_one_of_the_least_that_it_can_be() -> None:
    statement = read("SELECT AVG(age) FROM people WITHIN 5 PERCENT ASSUMING AT LEAST 50")
    plain = read("SELECT AVG(age) FROM people WITHIN 1 ASSUMING AT LEAST 50")
    assert at_most(statement).questions == at_most(plain).questions
    with pytest.raises(SqlError, match="may be zero"):
        at_most(read("SELECT AVG(age - 20) FROM people WITHIN 5 PERCENT ASSUMING 50"))


def steps_of(part: Part, target: RelativeTarget, rng: random.Random) -> list[float]:
    """The half-widths of all steps until the number is known within its part."""
    asked_for, known = list[float](), KnownSum()
    while not target.is_met(known) and len(asked_for) < 20:
        asked_for.append(target.next_half(known))
        part.ask(asked_for[-1], rng)
        known = KnownSum(part.estimate - part.half, part.estimate + part.half, part.estimate)
    return asked_for


@pytest.mark.parametrize("truth", [40.0, 900.0, 1100.0, 30_000.0, -5_000.0])
def test_steps_end_within_the_part_and_hold_as_often_as_they_say(truth: float) -> None:
    target, rng = RelativeTarget(0.02, 1000.0), random.Random(3)
    unit = -math.log(0.05)
    n_held = 0
    for _ in range(N_RUNS):
        part = Part(truth, unit)
        halves = steps_of(part, target, rng)
        assert len(halves) <= 6
        assert min(halves) >= target.most
        assert part.half <= 0.02 * max(1000.0, abs(part.estimate))
        n_held += abs(part.noise) <= part.half
    assert n_held >= LEAST_COVERAGE * N_RUNS


def test_a_large_number_is_asked_less_exactly_than_at_worst() -> None:
    rng = random.Random(4)
    halves = steps_of(Part(30_000.0, -math.log(0.05)), RelativeTarget(0.02, 1000.0), rng)
    assert halves == [16 * 0.02 * 1000.0]


def test_what_history_has_is_not_asked_again() -> None:
    target = RelativeTarget(0.1, 100.0)
    assert target.is_met(KnownSum(900.0, 1100.0, 1000.0))
    assert not target.is_met(KnownSum(400.0, 600.0, 500.0))
    assert not target.is_met(KnownSum())
