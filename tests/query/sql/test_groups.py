"""What a text may group by: parts of dates by Python's calendar, and each attribute once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from qserver.errors import SqlError
from qserver.query.domain_file import domain_from_document
from qserver.query.sealed_periods import sealed_domain
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Sum
from tests.query.sql.people import read

FIRST = date(2019, 12, 26)
"""A Thursday."""
N_DAYS = 420
PARTS: dict[str, Callable[[date], int]] = {
    "year": lambda d: int(f"{d:%Y}"),
    "quarter": lambda d: (int(f"{d:%m}") + 2) // 3,
    "month": lambda d: int(f"{d:%m}"),
    "week": lambda d: int(f"{d:%V}"),
    "day": lambda d: int(f"{d:%d}"),
    "dow": lambda d: int(f"{d:%w}"),
    "isodow": lambda d: int(f"{d:%u}"),
}
ONE_WEEK = {"name": "w", "kind": "period", "every": "week", "first": "2024-W10", "count": 1}


def days(**more: object) -> dict[str, object]:
    first = FIRST.isoformat()
    return {"name": "d", "kind": "date", "every": "day", "first": first, "count": N_DAYS, **more}


def groups(
    by: str, item: dict[str, Any], *, n_sealed: int | None = None
) -> dict[str | None, list[int]]:
    """In order, the values of the only attribute that each group has; None for NULL."""
    domain = domain_from_document({"attributes": [item]})
    if n_sealed is not None:
        domain = sealed_domain(domain, item["name"], n_sealed)
    text = f"SELECT {by} AS g, COUNT(*) FROM v GROUP BY g"
    found = dict[str | None, list[int]]()
    for row in parse_statement(text, domain, dataset="v").rows:
        [cell], [name] = row.cells, row.group
        assert isinstance(cell, Sum)
        [term] = cell.query.terms
        weights = term.factors[0].weights.dense if term.factors else [1] * domain.sizes[0]
        found[name] = [i for i, weight in enumerate(weights) if weight]
    return found


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_days_are_those_of_pythons_calendar(part: str) -> None:
    expected: dict[int, list[int]] = {}
    for i in range(N_DAYS):
        expected.setdefault(PARTS[part](FIRST + timedelta(days=i)), []).append(i)
    found = groups(f"EXTRACT({part} FROM d)", days())
    assert list(found.items()) == [(str(n), expected[n]) for n in sorted(expected)]


@pytest.mark.parametrize("part", ["year", "quarter", "month", "week"])
def test_parts_of_weeks_are_those_of_their_thursdays(part: str) -> None:
    expected: dict[str, list[int]] = {}
    for i in range(60):
        expected.setdefault(str(PARTS[part](FIRST + timedelta(weeks=i))), []).append(i)
    item = {**ONE_WEEK, "first": "2019-W52", "count": 60}
    found = groups(f"EXTRACT({part} FROM w)", item)
    assert found == expected
    assert list(found) == sorted(expected, key=int)


@pytest.mark.parametrize(
    ("by", "n_groups"),
    [
        ("EXTRACT(YEAR FROM d)", 3),
        ("YEAR(d)", 3),
        ("DATE_TRUNC('year', d)::date", 3),
        ("CASE WHEN d < '2020-01-01' THEN 'before' ELSE 'since' END", 2),
    ],
)
def test_dates_outside_are_a_group_of_their_own_at_the_end_or_in_the_rest(
    by: str, n_groups: int
) -> None:
    found = groups(by, days(outside="other", missing="other"))
    of_other = [name for name, values in found.items() if N_DAYS in values]
    assert sorted(i for values in found.values() for i in values) == list(range(N_DAYS + 1))
    if "CASE" in by:
        assert of_other == ["since"]
    else:
        assert list(found)[-1] is None
        assert found[None] == [N_DAYS]
        assert len(found) == n_groups + 1


@pytest.mark.parametrize("by", ["EXTRACT(MONTH FROM w)", "MONTH(w)", "w", "EXTRACT(WEEK FROM w)"])
def test_groups_are_of_the_periods_that_have_their_data(by: str) -> None:
    item = {**ONE_WEEK, "count": 12}
    for n in (1, 5, 12):
        found = groups(by, item, n_sealed=n)
        assert sorted(i for values in found.values() for i in values) == list(range(n))


@pytest.mark.parametrize(
    ("by", "name"),
    [
        ("w", "2024-W10"),
        ("MONTH(w)", "3"),
        ("DATE_TRUNC('month', w)", "2024-03"),
        ("EXTRACT(WEEK FROM w)", "10"),
        ("DATE_TRUNC('week', w)::date", "2024-03-04"),
        ("TO_CHAR(w, 'YYYY-MM-DD')", "2024-03-04"),
        ("CASE WHEN w = '2024-W10' THEN 'a' ELSE 'b' END", "a"),
    ],
)
def test_an_attribute_with_one_value_has_one_group(by: str, name: str) -> None:
    assert groups(by, ONE_WEEK) == {name: [0]}


def test_a_label_may_be_the_only_one() -> None:
    item = {"name": "s", "labels": ["Female"]}
    assert groups("s", item) == {"Female": [0]}
    assert groups("UPPER(s)", item) == {"FEMALE": [0]}
    assert groups("LENGTH(s)", item) == {"6": [0]}
    assert groups("s || '!'", item) == {"Female!": [0]}


def test_labels_of_one_number_stand_together_by_number() -> None:
    item = {"name": "s", "labels": ["three", "a", "bb", "seven", "c"]}
    assert list(groups("LENGTH(s)", item).items()) == [("1", [1, 4]), ("2", [2]), ("5", [0, 3])]
    found = groups("LEFT(s, 1)", {**item, "labels": ["b1", "a1", "b2"]})
    assert list(found.items()) == [("b", [0, 2]), ("a", [1])]


@pytest.mark.parametrize(
    "by",
    [
        "age, age",
        "region, age, region",
        "FLOOR(age / 4), FLOOR(age / 4)",
        "region = 'East', region, region = 'East'",
    ],
)
def test_the_same_may_stand_once(by: str) -> None:
    with pytest.raises(SqlError, match="group by each attribute once"):
        read(f"SELECT COUNT(*) FROM people GROUP BY {by}")


@pytest.mark.parametrize(
    ("by", "n_rows"),
    [
        ("FLOOR(age / 4), FLOOR(age / 2)", 4),
        ("age, FLOOR(age / 4)", 8),
        ("FLOOR(age / 4), age", 8),
        ("region = 'East', region", 4),
        ("age, region", 32),
    ],
)
def test_two_of_one_attribute_may_stand_together(by: str, n_rows: int) -> None:
    """Groups that no record can be in are not there."""
    assert len(read(f"SELECT {by}, COUNT(*) FROM people GROUP BY {by}").rows) == n_rows


def test_an_attribute_goes_before_a_name_of_select() -> None:
    text = "SELECT {} AS region, COUNT(*) FROM people GROUP BY region"
    assert len(read(text.format("region")).rows) == 4
    with pytest.raises(SqlError):
        read(text.format("age"))
    named = read("SELECT region AS age, region AS r, COUNT(*) FROM people GROUP BY region")
    assert {row.group[0] for row in named.rows} == {"North", "South", "East", None}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT COUNT(*) FROM people GROUP BY age", ("age",)),
        ("SELECT age AS years, COUNT(*) FROM people GROUP BY age", ("years",)),
        ("SELECT region AS r, age, COUNT(*) FROM people GROUP BY age, region", ("age", "r")),
        ("SELECT age AS years, COUNT(*) FROM people GROUP BY 1", ("years",)),
        (
            "SELECT region, age AS a, COUNT(*) FROM people GROUP BY a, people.region",
            ("a", "region"),
        ),
        ("SELECT FLOOR(age / 4) AS f, COUNT(*) FROM people GROUP BY FLOOR(age / 4)", ("f",)),
        ("SELECT COUNT(*) FROM people GROUP BY UPPER(region)", ("UPPER(region)",)),
        (
            "SELECT region AS a, COALESCE(region, 'all') AS b, COUNT(*) FROM people "
            "GROUP BY ROLLUP (region)",
            ("a", "b"),
        ),
    ],
)
def test_a_group_is_called_what_select_calls_it(text: str, names: tuple[str, ...]) -> None:
    assert read(text).groups == names


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ("COALESCE(region, 'all')", ["North", "South", "East", "all", "all"]),
        ("COALESCE((region), 'all')", ["North", "South", "East", "all", "all"]),
        (
            "CASE WHEN GROUPING(region) = 1 THEN 'all' ELSE region END",
            ["North", "South", "East", None, "all"],
        ),
    ],
)
def test_all_groups_together_have_the_name_of_the_text(said: str, rows: list[str | None]) -> None:
    text = f"SELECT {said} AS r, COUNT(*) FROM people GROUP BY ROLLUP (region)"
    assert [row.group[0] for row in read(text).rows] == rows


@pytest.mark.parametrize("by", ["'all'", "1", "k", "'all', 1"])
def test_one_value_tells_no_groups_apart(by: str) -> None:
    found = read(f"SELECT 'all' AS k, COUNT(*) AS n FROM people GROUP BY {by}")
    assert [row.group for row in found.rows] == [("all",)]
    both = read(f"SELECT 'all' AS k, region, COUNT(*) AS n FROM people GROUP BY region, {by}")
    assert [row.group for row in both.rows] == [
        (*row.group, "all") for row in read("SELECT region, COUNT(*) FROM people GROUP BY 1").rows
    ]


def test_what_takes_another_attribute_is_no_name_of_a_total() -> None:
    with pytest.raises(SqlError):
        read("SELECT COALESCE(region, sex) AS r, COUNT(*) FROM people GROUP BY ROLLUP (region)")


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("3 + 4", "not by one value"),
        ("COUNT(*)", "attributes of a record"),
        ("SUM(age)", "attributes of a record"),
        ("FLOOR(region / 2)", "`region` has labels"),
        ("SQRT(age)", r"numbers that can be written out .* ROUND\(SQRT\(age\), 2\)"),
        ("SQRT(income)", "be the same on all of a bin of `income`"),
    ],
)
def test_what_is_no_group_is_refused(by: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        read(f"SELECT COUNT(*) FROM people GROUP BY {by}")


def test_a_case_that_leaves_nothing_over_needs_no_else() -> None:
    text = "SELECT CASE WHEN age < 22 THEN 'a' WHEN age >= 22 THEN 'b' END AS g, COUNT(*) "
    rows = read(f"{text} FROM people GROUP BY g").rows
    assert [row.group for row in rows] == [("a",), ("b",)]


@pytest.mark.parametrize(
    "case", ["CASE WHEN age < 22 THEN 'a' END", "CASE WHEN age < 22 THEN 'a' ELSE NULL END"]
)
def test_a_case_that_leaves_something_over_has_a_group_of_null(case: str) -> None:
    rows = read(f"SELECT {case} AS g, COUNT(*) FROM people GROUP BY g").rows
    assert [row.group for row in rows] == [("a",), (None,)]


def test_values_that_are_no_number_keep_their_name_in_steps() -> None:
    item = {"name": "n", "kind": "integer", "range": [0, 3], "outside": "other"}
    assert groups("FLOOR(n / 2)", item) == {"0": [0, 1], "1": [2, 3], "other": [4]}
    for missing in ("drop", "other"):
        found = groups("FLOOR(n / 2)", {**item, "missing": missing})
        rest = "other" if missing == "drop" else None
        assert found == {"0": [0, 1], "1": [2, 3], rest: [4]}
    assert groups("-n", {**item, "outside": "drop"}) == {
        "-3": [3], "-2": [2], "-1": [1], "0": [0]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("by", "course"),
    [
        ("w", ["2024-W10", "2024-W11", "2024-W12"]),
        ("DATE_TRUNC('month', w)", ["2024-03"]),
        ("MONTH(w)", None),
        ("EXTRACT(WEEK FROM w)", None),
        ("UPPER(s)", None),
        ("s", None),
    ],
)
def test_groups_of_time_have_a_course(by: str, course: list[str] | None) -> None:
    """Without the value for dates outside, which has no place in time."""
    weeks = {**ONE_WEEK, "kind": "date", "count": 3, "outside": "other"}
    domain = domain_from_document({"attributes": [weeks, {"name": "s", "labels": ["a", "b"]}]})
    found = parse_statement(f"SELECT {by}, COUNT(*) FROM v GROUP BY {by}", domain, dataset="v")
    assert (found.course and list(found.course.names)) == course


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (
            "EXTRACT(HOUR FROM d)",
            "EXTRACT one of YEAR, ISOYEAR, QUARTER, MONTH, WEEK, DAY, DOY",
        ),
        ("EXTRACT(DAY FROM w)", "take no less than a week of `w`"),
        ("EXTRACT(DOW FROM w)", "take no less than a week of `w`"),
        ("EXTRACT(YEAR FROM s)", "take the year of .* not of `s`"),
        ("EXTRACT(YEAR FROM '2024-01-01')", "take the year of an attribute of dates or periods"),
        ("MONTH(d) || s || UPPER(d)", "`d` has none"),
        ("UPPER(s || u)", "name attributes of the dataset"),
        ("TO_CHAR(d, 'MM')", "write dates as 'YYYY', 'YYYY-MM' or 'YYYY-MM-DD'"),
    ],
)
def test_a_part_that_there_is_not_is_refused(by: str, message: str) -> None:
    labels = [{"name": name, "labels": ["a", "b"]} for name in ("s", "t")]
    domain = domain_from_document({"attributes": [days(), ONE_WEEK, *labels]})
    with pytest.raises(SqlError, match=message):
        parse_statement(f"SELECT COUNT(*) FROM v GROUP BY {by}", domain, dataset="v")


@pytest.mark.parametrize(
    ("left", "sign", "mirrored", "right"),
    [
        ("EXTRACT(MONTH FROM d)", "=", "=", "3"),
        ("EXTRACT(ISODOW FROM d)", ">", "<", "5"),
        ("MONTH(d)", "=", "=", "'2020-03'"),
        ("DATE_TRUNC('month', d)", "<=", ">=", "'2020-03'"),
        ("TO_CHAR(d, 'YYYY')", "<>", "<>", "'2020'"),
        ("d", "<", ">", "'2020-03-01'"),
        ("UPPER(s)", "=", "=", "'A'"),
        ("LENGTH(s)", ">=", "<=", "2"),
        ("above", "=", "=", "'North'"),
        ("LOWER(above)", "=", "=", "'north'"),
    ],
)
def test_a_comparison_may_stand_the_other_way_round(
    left: str, sign: str, mirrored: str, right: str
) -> None:
    levels = {"above": {"North": ["a"], "South": ["bb", "c"]}}
    labels = {"name": "s", "labels": ["a", "bb", "c"], "levels": levels}
    domain = domain_from_document({"attributes": [days(), labels]})
    found = [
        parse_statement(f"SELECT COUNT(*) FROM v WHERE {one}", domain, dataset="v").rows
        for one in (f"{left} {sign} {right}", f"{right} {mirrored} {left}")
    ]
    assert found[0] == found[1]
    assert found[0] != parse_statement("SELECT COUNT(*) FROM v", domain, dataset="v").rows


LEVELLED = {
    "name": "s",
    "labels": ["a", "bb", "c", "dddd"],
    "outside": "other",
    "missing": "drop",
    "levels": {"above": {"North": ["a", "dddd"], "South": ["bb", "c"]}},
}


@pytest.mark.parametrize(
    ("by", "found"),
    [
        ("above", {"North": [0, 3], "South": [1, 2], "other": [4]}),
        ("UPPER(above)", {"NORTH": [0, 3], "SOUTH": [1, 2], "OTHER": [4]}),
        ("LENGTH(s)", {"1": [0, 2], "2": [1], "4": [3], "5": [4]}),
        ("LENGTH(above)", {"5": [0, 1, 2, 3, 4]}),
    ],
)
def test_other_labels_are_a_group_of_their_own_on_every_level(
    by: str, found: dict[str, list[int]]
) -> None:
    assert groups(by, LEVELLED) == found


@pytest.mark.parametrize(
    ("by", "found"),
    [
        ("above", {"North": [0, 3], "South": [1, 2], None: [4]}),
        ("UPPER(above)", {"NORTH": [0, 3], "SOUTH": [1, 2], None: [4]}),
        ("LENGTH(s)", {"1": [0, 2], "2": [1], "4": [3], None: [4]}),
        ("CONCAT(s, '!')", {"a!": [0], "bb!": [1], "c!": [2], "dddd!": [3], "!": [4]}),
        ("s || '!'", {"a!": [0], "bb!": [1], "c!": [2], "dddd!": [3], None: [4]}),
        ("COALESCE(UPPER(above), 'NORTH')", {"NORTH": [0, 3, 4], "SOUTH": [1, 2]}),
        ("NULLIF(above, 'North')", {"South": [1, 2], None: [0, 3, 4]}),
    ],
)
def test_a_missing_label_is_null_on_every_level(
    by: str, found: dict[str | None, list[int]]
) -> None:
    assert groups(by, {**LEVELLED, "missing": "other"}) == found


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("LENGTH(s) >= 2", [1, 3, 4]),
        ("LENGTH(s) BETWEEN 2 AND 4", [1, 3]),
        ("LENGTH(s) < 2", [0, 2]),
        ("LENGTH(s) IN (1, 5)", [0, 2, 4]),
        ("above <> 'North'", [1, 2, 4]),
        ("above = 'other'", [4]),
        ("NOT above = 'other'", [0, 1, 2, 3]),
        ("LOWER(above) = 'south'", [1, 2]),
    ],
)
def test_a_condition_on_what_follows_from_a_label_selects_these(
    condition: str, values: list[int]
) -> None:
    domain = domain_from_document({"attributes": [LEVELLED]})
    text = f"SELECT COUNT(*) FROM v WHERE {condition}"
    [[cell]] = [row.cells for row in parse_statement(text, domain, dataset="v").rows]
    assert isinstance(cell, Sum)
    [term] = cell.query.terms
    assert [i for i, weight in enumerate(term.factors[0].weights.dense) if weight] == values
