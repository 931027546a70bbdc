"""One WITHIN is for numbers of one unit; what is refused shows the text that is not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from qserver.errors import SqlError
from qserver.query.sql.shaping.units_of_measure import COUNTS, PURE, Unit
from qserver.query.sql.tables.unconfirmed import stated, unconfirmed
from tests.query.sql.people import read

AGE, SUM_OF_AGE = Unit((("age", 1),)), Unit((("", 1), ("age", 1)))


@pytest.mark.parametrize(
    ("item", "unit"),
    [
        ("COUNT(*)", COUNTS),
        ("COUNT(age)", COUNTS),
        ("100 * COUNT(*) - 3 * COUNT_IF(age > 22) + 7", COUNTS),
        ("SUM(CASE WHEN age > 22 THEN 1 ELSE 0 END)", COUNTS),
        ("SUM(2)", COUNTS),
        ("MIN(age)", COUNTS),
        ("COUNT(DISTINCT region)", COUNTS),
        ("(SELECT COUNT(*) FROM people)", COUNTS),
        ("SUM(COUNT(*)) OVER ()", COUNTS),
        ("SUM(age)", SUM_OF_AGE),
        ("SUM(people.age * 2 + 1) - 40 * COUNT(*)", SUM_OF_AGE),
        ("SUM(CASE WHEN income >= 10 THEN age END)", SUM_OF_AGE),
        ("SUM(age) FILTER (WHERE income >= 10)", SUM_OF_AGE),
        ("SUM(age * income)", Unit((("", 1), ("age", 1), ("income", 1)))),
        ("AVG(age)", AGE),
        ("AVG(COALESCE(age, 0)) + 1", AGE),
        ("SUM(age) / COUNT(*)", AGE),
        ("MEDIAN(age)", AGE),
        ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age)", AGE),
        ("QUANTILE_CONT(age, 0.9)", AGE),
        ("STDDEV(age) / 2", AGE),
        ("VARIANCE(age)", Unit((("age", 2),))),
        ("SUM(income) / SUM(age)", Unit((("age", -1), ("income", 1)))),
        ("COUNT_IF(age > 22) / COUNT(*)", PURE),
        ("ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1)", PURE),
        ("AVG(CASE WHEN age > 22 THEN 100 ELSE 0 END)", PURE),
        ("SUM(age) / SUM(CASE WHEN income >= 10 THEN age END)", PURE),
    ],
)
def test_a_unit_is_what_is_added_up(item: str, unit: Unit) -> None:
    by = " GROUP BY region" if "OVER" in item else ""
    assert read(f"SELECT {item} AS x FROM people{by}").units == (unit,)


def test_a_number_of_groups_that_pass_has_a_unit_of_its_own() -> None:
    inner = "SELECT region FROM people GROUP BY region HAVING COUNT(*) > 9"
    [unit] = read(f"SELECT COUNT(*) FROM ({inner}) AS t").units
    assert unit.text == "numbers of groups"


@pytest.mark.parametrize(
    ("items", "served"),
    [
        ("COUNT(*), COUNT(age), MIN(age)", {0, 1, 2}),
        ("AVG(age), MEDIAN(age), STDDEV(age)", {0, 1, 2}),
        ("COUNT(*), AVG(age)", {0}),
        ("AVG(age), COUNT(*), SUM(age)", {1}),
        ("AVG(age), AVG(income)", set()),
        ("SUM(age), SUM(income)", set()),
        ("COUNT(*) WITHIN 3, AVG(age)", {1}),
        ("COUNT(*) WITHIN 3, AVG(age), COUNT(age)", {2}),
    ],
)
def test_a_within_at_the_end_is_for_one_unit_else_for_the_counts(
    items: str, served: set[int]
) -> None:
    statement = read(f"SELECT {items} FROM people WITHIN 5 CONFIDENCE 0.9")
    for k in range(len(statement.columns)):
        found = statement.exactness_of(k)
        own = statement.said_of(k).half_width
        assert found.half_width == (Fraction(5) if k in served else own)
        assert found.confidence == Fraction(9, 10)
    assert statement.has_lengths == all(
        k in served or statement.said_of(k).has_length for k in range(len(statement.columns))
    )


def test_what_having_alone_names_takes_no_part_in_the_choice_of_a_unit() -> None:
    text = "SELECT region, AVG(age) FROM people GROUP BY region HAVING COUNT(*) > 9 WITHIN 1"
    statement = read(text)
    assert [statement.exactness_of(k).half_width for k in (0, 1)] == [1, None]
    same = read(text.replace("COUNT(*) > 9", "MEDIAN(age) > 22"))
    assert same.has_lengths


def test_a_percentage_is_for_all() -> None:
    assert read("SELECT COUNT(*), SUM(age) FROM people WITHIN 2 PERCENT").has_lengths


TYPED = {
    "SELECT COUNT(*), AVG(age) FROM people WITHIN 5": (
        "say WITHIN behind averages of `age`, too: 5 is for counts",
        "SELECT COUNT(*), AVG(age) WITHIN 0.35 FROM people WITHIN 5 ASSUMING AT LEAST 1000",
    ),
    "EXPLAIN SELECT region, AVG(age) AS a, SUM(age) AS s FROM people GROUP BY 1 WITHIN 5;": (
        "say WITHIN behind each of averages of `age`, sums of `age`: 5 cannot be for all of them",
        "SELECT region, AVG(age) AS a WITHIN 0.35, SUM(age) AS s WITHIN 2700 FROM people GROUP BY "
        "1 WITHIN 5 ASSUMING AT LEAST 1000",
    ),
    "SELECT region, AVG(age) FROM people GROUP BY region HAVING COUNT(*) > 9 WITHIN 1": (
        "say WITHIN behind counts, too: 1 is for averages of `age`",
        "SELECT region, AVG(age), COUNT(*) WITHIN 100 FROM people GROUP BY region HAVING COUNT(*) "
        "> 9 WITHIN 1 ASSUMING AT LEAST 1000",
    ),
    "SELECT r, n, a FROM (SELECT region AS r, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY 1)"
    " AS t WHERE n > 9 WITHIN 5": (
        "say WITHIN behind averages of `age`, too: 5 is for counts",
        "SELECT r, n, a WITHIN 0.35 FROM (SELECT region AS r, COUNT(*) AS n, AVG(age) AS a FROM "
        "people GROUP BY 1) AS t WHERE n > 9 WITHIN 5 ASSUMING AT LEAST 1000",
    ),
    "SELECT AVG(age) CONFIDENCE 0.9, MEDIAN(age) FROM people -- mine": (
        "say how long the intervals may be",
        "",
    ),
    "SELECT AVG(age), COUNT(*) FROM people CONFIDENCE 0.9": (
        "say how long the intervals may be",
        "SELECT AVG(age) WITHIN 0.35, COUNT(*) WITHIN 100 FROM people CONFIDENCE 0.9 ASSUMING AT "
        "LEAST 1000",
    ),
    "SELECT COUNT(*), MAX(age) FROM people": (
        "say how long the intervals may be",
        "SELECT COUNT(*), MAX(age) FROM people WITHIN 100",
    ),
}


@pytest.mark.parametrize("text", TYPED)
def test_a_refusal_shows_a_text_that_says_all_lengths(text: str) -> None:
    statement = read(text)
    full = stated(statement)
    error = unconfirmed(statement, full, price_nano=10**9, remaining_nano=2 * 10**9)
    condition, typed = TYPED[text]
    assert condition in str(error)
    assert str(error).endswith(f"To accept, send {typed or f'the statement with {error.words}.'}")
    if typed:
        again = read(typed)
        assert again.has_lengths
        n = len(again.columns)
        assert sorted(str(again.exactness_of(k)) for k in range(n)) == sorted(
            str(full.exactness_of(k)) for k in range(n)
        )


def test_the_parts_of_a_union_have_one_unit_at_each_place() -> None:
    with pytest.raises(SqlError, match=r"got counts and averages of `age`.*one by one"):
        read("SELECT 'n' AS w, COUNT(*) FROM people UNION ALL SELECT 'a', AVG(age) FROM people")


@pytest.mark.parametrize(
    ("item", "length"),
    [
        ("COUNT(*)", "100"),
        ("COUNT(*) / 4", "25"),
        ("0.5 * COUNT(*) - 3 * COUNT(region)", "300"),
        ("SUM(age * 0.25)", "675"),
    ],
)
def test_the_stated_length_of_a_sum_is_that_of_a_count_times_its_largest_weight(
    item: str, length: str
) -> None:
    """A hundred people more or less, each with the largest weight of one."""
    statement = read(f"SELECT {item} AS x FROM people")
    assert stated(statement).exactness_of(0).half_width == Fraction(length)
