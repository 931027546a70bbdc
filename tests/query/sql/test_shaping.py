"""Groups, HAVING, ORDER BY and LIMIT give what DuckDB gives for the same text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from qserver.errors import CapacityError, SqlError
from qserver.query.asking.after_looking import Selection
from qserver.query.domain_file import domain_from_document
from qserver.query.sql.functions.function_of_sums import Combined
from qserver.query.sql.order_by import PLAIN, Compare, Every, Shape, SortKey
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.shaping.rounding import Rounding
from qserver.query.sql.statement import Ratio, Sum
from tests.query.sql.people import People, read

GROUPED = [
    "CASE WHEN age < 22 THEN 'young' WHEN age < 25 THEN 'middle' ELSE 'old' END",
    "CASE WHEN age < 22 AND region = 'North' THEN 'a' WHEN region = 'East' THEN 'b' ELSE 'a' END",
    "CASE region WHEN 'North' THEN 'up' ELSE region END",
    "CASE WHEN age < 24 THEN 1 ELSE 0 END",
    "age >= 24 OR region = 'South'",
    "FLOOR(age / 4)",
    "FLOOR(age / 4) * 4",
    "age % 3",
    "MOD(age, -5)",
    "FLOOR((age - 24) % 3 / 2)",
    "CEIL((age - 20) / 3) + 1",
    "10 - FLOOR(age / 3)",
    "FLOOR(income / 60)",
    "FLOOR(height * 2 / 3)",
    "region || '/' || age",
    "CONCAT_WS('-', region, \"sex-at-birth\")",
    "REGEXP_MATCHES(region, '^[NS]')",
    "SPLIT_PART(region, 'o', 2)",
    "POWER(age, 2)",
    "ROUND(LN(age), 1)",
    "age // 3",
    "income // 60",
    "(age % 3) * LENGTH(region)",
    "GREATEST(age % 4, LENGTH(region))",
    "LENGTH(region) > age - 20",
    "FLOOR(income / 60) + LENGTH(region) * age",
    "(income // 60) || region",
    "POWER(FLOOR(height * 2 / 3), 2) + age % 2",
    "CASE WHEN CONTAINS(region, 'o') THEN REVERSE(region) ELSE region || 1 END",
]
SHAPED = [
    "SELECT age, COUNT(*) AS n FROM people GROUP BY age ORDER BY n DESC, age",
    "SELECT age, COUNT(*) AS n FROM people GROUP BY age ORDER BY n, age DESC LIMIT 3",
    "SELECT age, COUNT(*) FROM people GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 2 OFFSET 3",
    "SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY COUNT(*) DESC, age "
    "OFFSET 2 ROWS FETCH NEXT 4 ROWS ONLY",
    "SELECT age, COUNT(*) FROM people GROUP BY age HAVING COUNT(*) > 37 ORDER BY age",
    "SELECT age, COUNT(*) FROM people GROUP BY age "
    "HAVING COUNT(*) BETWEEN 30 AND 40 AND age > 21 ORDER BY age DESC",
    "SELECT age, COUNT(*), SUM(age) FROM people GROUP BY age "
    "HAVING NOT (COUNT(*) < 36 OR SUM(age) = 0) OR SUM(age) < COUNT(*) ORDER BY age",
    "SELECT age, COUNT(*) FROM people GROUP BY age ORDER BY age DESC LIMIT 3 OFFSET 1",
    "SELECT age AS years, COUNT(*) FROM public.people AS p GROUP BY years ORDER BY years LIMIT 2",
    "SELECT FLOOR(age / 3) AS step, COUNT(*) FROM people GROUP BY step ORDER BY step DESC LIMIT 2",
    "SELECT age, AVG(CASE WHEN age > 24 THEN 1 END) AS a, COUNT(*) FROM people GROUP BY age "
    "ORDER BY a DESC NULLS FIRST, 3 LIMIT 5",
]


def true_table(people: People, text: str) -> list[tuple[object, ...]]:
    """The rows that are shown where each released number is the true one."""
    statement = read(text)
    table = [[_value(people, cell) for cell in row.cells] for row in statement.rows]
    places = statement.shape.places(table)
    return [(*statement.rows[i].group, *table[i]) for i in places]


def _value(people: People, cell: Sum | Ratio | Combined) -> float | None:
    assert not isinstance(cell, Combined)
    if isinstance(cell, Sum):
        return float(people.value(cell.query))
    under = people.value(cell.denominator)
    return float(people.value(cell.numerator) / under) if under else None


@pytest.mark.parametrize("group", GROUPED)
def test_a_group_of_an_expression_is_duckdbs(group: str, people: People) -> None:
    expected = {
        (_name(key), n)
        for key, n in people.duck(
            f"SELECT {group}, COUNT(*) FROM people WHERE income < 25 GROUP BY 1"
        )
    }
    found = true_table(
        people, f"SELECT {group} AS g, COUNT(*) FROM people WHERE income < 25 GROUP BY g"
    )
    assert {(name, n) for name, n in found if n} == expected


def _name(key: object) -> str | None:
    if key is None:
        return None
    if isinstance(key, bool):
        return str(key).lower()
    return f"{key:g}" if isinstance(key, float) else str(key)


@pytest.mark.parametrize("text", SHAPED)
def test_rows_are_chosen_and_ordered_as_duckdb_does(text: str, people: People) -> None:
    expected = [
        (_name(row[0]), *map(_number, row[1:]))
        for row in people.duck(text.replace("public.people", "people"))
    ]
    assert true_table(people, text) == expected


def _number(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


def test_only_the_groups_that_a_public_order_shows_are_measured() -> None:
    text = "SELECT age, region, COUNT(*) FROM people GROUP BY age, region"
    cut = read(f"{text} ORDER BY region DESC NULLS FIRST LIMIT 3 OFFSET 1")
    assert [row.group for row in cut.rows] == [("21", None), ("22", None), ("23", None)]
    assert cut.shape == PLAIN
    assert cut.clauses.looking.selected_from is None
    assert len(read(f"{text} LIMIT 5").rows) == 5
    assert len(read(f"{text} ORDER BY 3 LIMIT 5").rows) == 32


def test_the_bound_on_numbers_counts_those_that_are_measured() -> None:
    text = 'SELECT age, income, height, region, "sex-at-birth", COUNT(*), SUM(age) FROM people'
    text += ' GROUP BY age, income, height, region, "sex-at-birth"'
    assert len(read(f"{text} LIMIT 500").rows) == 500
    with pytest.raises(CapacityError, match="1,152"):
        read(f"{text} ORDER BY COUNT(*) LIMIT 5")


@pytest.mark.parametrize(
    ("tail", "selection"),
    [
        ("ORDER BY n DESC LIMIT 3", Selection(8, "largest", 3)),
        ("ORDER BY n LIMIT 3", Selection(8, "least", 3)),
        ("ORDER BY n DESC LIMIT 2 OFFSET 3", Selection(8, "largest", 5)),
        ("ORDER BY n DESC OFFSET 3", Selection(8, "any")),
        ("ORDER BY n DESC", None),
        ("ORDER BY n DESC LIMIT 8", None),
        ("HAVING n > 3", Selection(8, "any")),
        ("HAVING n > 3 ORDER BY n DESC LIMIT 2", Selection(8, "any")),
        ("ORDER BY age, n LIMIT 2", Selection(8, "any")),
        ("HAVING age > 23 ORDER BY age LIMIT 2", None),
        ("ORDER BY n DESC LIMIT 3 WITHIN 5 SIMULTANEOUS", None),
        ("ORDER BY n DESC LIMIT 3 WITHIN 5 AS ANY OF 99", Selection(99, "any")),
        ("ORDER BY n DESC LIMIT 3 WITHIN 5 AS LARGEST 4 OF 9", Selection(9, "largest", 4)),
    ],
)
def test_intervals_allow_for_the_choice_that_is_made(
    tail: str, selection: Selection | None
) -> None:
    statement = read(f"SELECT age, COUNT(*) AS n FROM people GROUP BY age {tail}")
    assert statement.clauses.looking.selected_from == selection


def test_columns_that_do_not_order_are_chosen_anyhow() -> None:
    shape = Shape(keys=(SortKey(1, descending=True),), limit=2)
    assert [shape.rule(k, "largest") for k in range(3)] == ["any", "largest", "any"]


def test_a_number_that_only_having_or_order_by_names_has_a_column() -> None:
    statement = read(
        "SELECT region, SUM(age) FROM people GROUP BY region "
        "HAVING COUNT(*) > 9 ORDER BY AVG(age) / 2, COUNT(*)"
    )
    assert statement.columns == ("SUM(age)", "COUNT(*)", "AVG(age) / 2")


def test_a_test_of_a_missing_number_neither_holds_nor_fails() -> None:
    """As NULL in SQL: NOT leaves it unknown, and a part that fails decides."""
    less, more = Compare(0, "<", 1), Compare(0, ">=", 1)
    table: Sequence[Sequence[float | None]] = [[None, 0.0], [0.0, 0.0], [2.0, 3.0]]
    assert [less.holds(row) for row in table] == [None, False, True]
    assert Shape(Every((less,))).places(table) == [2]
    assert Shape(Every((more,))).places(table) == [1]
    assert Every((less, Compare(1, ">", 1))).holds([None, 0.0]) is False


@pytest.mark.parametrize(
    ("pattern", "labels"),
    [
        ("a_c", ["abc", "a_c"]),
        (r"a\_c", ["a_c"]),
        (r"%\%", ["50%"]),
        ("%c", ["abc", "a_c"]),
        ("A%", []),
    ],
)
def test_a_backslash_in_a_pattern_makes_a_sign_stand_for_itself(
    pattern: str, labels: list[str]
) -> None:
    domain = domain_from_document({"attributes": [{"name": "s", "labels": ["abc", "a_c", "50%"]}]})
    text = f"SELECT s, COUNT(*) FROM v WHERE s {{}} '{pattern}' GROUP BY s"
    rows = parse_statement(text.format("ILIKE"), domain, dataset="v").rows
    assert [row.group[0] for row in rows] == (labels or ["abc", "a_c"])
    if labels:
        assert parse_statement(text.format("LIKE"), domain, dataset="v").rows == rows
    else:
        with pytest.raises(SqlError, match="fit a label of `s`"):
            parse_statement(text.format("LIKE"), domain, dataset="v")


def test_null_is_the_value_of_what_was_missing(people: People) -> None:
    [[found]] = [row.cells for row in read("SELECT COUNT(*) FROM people WHERE region IS NULL").rows]
    [[other]] = [
        row.cells for row in read("SELECT COUNT(*) FROM people WHERE region = 'other'").rows
    ]
    assert found == other
    kept = read("SELECT region, COUNT(*) FROM people WHERE region IS NOT NULL GROUP BY region")
    assert [row.group[0] for row in kept.rows] == ["North", "South", "East"]


@pytest.mark.parametrize(
    ("columns", "digits"),
    [
        ("COUNT(*)", ()),
        ("COUNT(*), SUM(age)", ()),
        ("ROUND(SUM(age), 2)", (2,)),
        ("COUNT(*), ROUND(SUM(age), 1)", (None, 1)),
        ("ROUND(AVG(age)), COUNT(*), ROUND(SUM(age), 3)", (0, None, 3)),
    ],
)
def test_a_column_is_rounded_whether_others_are_or_not(
    columns: str, digits: tuple[int | None, ...]
) -> None:
    shown = tuple(None if n is None else Rounding(n) for n in digits)
    assert read(f"SELECT {columns} FROM people").digits == shown
    assert read(f"SELECT region, {columns} FROM people GROUP BY region").digits == shown


@pytest.mark.parametrize(
    ("item", "how", "of"),
    [
        ("FLOOR(AVG(age))", "down", [(-2.5, -3.0), (2.5, 2.0)]),
        ("CEIL(AVG(age))", "up", [(-2.5, -2.0), (2.5, 3.0)]),
        ("TRUNC(AVG(age), 1)", "cut", [(-2.55, -2.5), (2.55, 2.5)]),
    ],
)
def test_steps_of_a_number_are_taken_at_its_ends_too(
    item: str, how: str, of: list[tuple[float, float]]
) -> None:
    [shown] = read(f"SELECT {item} FROM people").digits
    assert shown is not None
    assert shown.how == how
    for value, expected in of:
        assert shown.number(value) == shown.low(value) == shown.high(value) == expected
