"""Periods in SQL: comparisons hold for whole periods, and all others are refused."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import date, timedelta

import pytest

from qserver.errors import SqlError
from qserver.query.calendar import PeriodNotSealedError
from qserver.query.domain_file import domain_from_document
from qserver.query.sealed_periods import sealed_domain
from qserver.query.sql.parser import parse_statement
from qserver.query.sql.statement import Sum

WEEK = {"name": "week", "kind": "period", "every": "week", "first": "2024-W10", "count": 6}
YEAR = {"name": "date", "kind": "period", "every": "year", "first": "2020", "count": 5}
SEX = {"name": "sex", "labels": ["F", "M"]}
BEGIN = date(2024, 3, 4)
COMPARISONS: dict[str, Callable[[date, date], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def selected(condition: str, item: dict[str, object] = WEEK) -> list[str]:
    """The periods that a condition of SQL selects."""
    domain = domain_from_document({"attributes": [item, SEX]})
    statement = parse_statement(f"SELECT COUNT(*) FROM v WHERE {condition}", domain, dataset="v")
    (cell,) = statement.rows[0].cells
    assert isinstance(cell, Sum)
    names = domain.attributes[0].value_names
    if not cell.query.terms:
        return []
    (term,) = cell.query.terms
    dense = term.factors[0].weights.dense if term.factors else [1] * len(names)
    return [name for name, weight in zip(names, dense, strict=True) if weight]


def weeks(*numbers: int) -> list[str]:
    return [f"2024-W{n}" for n in numbers]


@pytest.mark.parametrize("sign", COMPARISONS)
def test_comparison_with_any_date_holds_for_whole_weeks_or_is_refused(sign: str) -> None:
    """By brute force over the days of ten weeks, which begin and end beyond the six of the data."""
    holds = COMPARISONS[sign]
    for i in range(-14, 56):
        day = BEGIN + timedelta(days=i)
        of_week = [
            {holds(BEGIN + timedelta(days=7 * w + d), day) for d in range(7)} for w in range(6)
        ]
        text = f"week {sign} DATE '{day}'"
        if all(len(values) == 1 for values in of_week):
            assert selected(text) == weeks(*(10 + w for w in range(6) if of_week[w] == {True}))
        else:
            with pytest.raises(SqlError, match=f"must not cut through a period .*{day} lies in"):
                selected(text)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("week >= '2024-W14'", weeks(14, 15)),
        ("week > '2024-W14'", weeks(15)),
        ("week <= '2024-W11'", weeks(10, 11)),
        ("'2024-W11' > week", weeks(10)),
        ("week = '2024-W12'", weeks(12)),
        ("week <> '2024-W12'", weeks(10, 11, 13, 14, 15)),
        ("NOT week = '2024-W12'", weeks(10, 11, 13, 14, 15)),
        ("week BETWEEN '2024-W11' AND '2024-W13'", weeks(11, 12, 13)),
        ("week NOT BETWEEN '2024-W11' AND '2024-W13'", weeks(10, 14, 15)),
        ("week BETWEEN '2024-W13' AND '2024-W11'", []),
        ("week BETWEEN DATE '2024-03-04' AND date '2024-03-10'", weeks(10)),
        ("week IN ('2024-W10', '2024-W15')", weeks(10, 15)),
        ("week < '2024-Q2'", weeks(10, 11, 12, 13)),
        ("week >= '1999-01-01'", weeks(10, 11, 12, 13, 14, 15)),
    ],
)
def test_condition_selects_these_weeks(condition: str, found: list[str]) -> None:
    assert selected(condition) == found


def test_attribute_may_be_called_date_and_years_be_numbers() -> None:
    assert selected("date >= DATE '2023-01-01'", YEAR) == ["2023", "2024"]
    assert selected("date = 2021 OR date > 2023", YEAR) == ["2021", "2024"]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("week = DATE '2024-03-06'", "compare `week` with a period of `week` .*lies in 2024-W10"),
        ("week = '2024-W30'", "compare `week` with a period of `week` .*2024-W10 to 2024-W15"),
        ("week < '2023-W53'", "compare `week` with a week such as .*last week of 2023 is 2023-W52"),
        ("week < 5", "compare `week` with a week such as 2024-W10, or a date"),
        ("week < 1 + 1", "compare `week` with periods or dates in quotes .*Such as '2024-W10' or"),
        ("week IN (7)", "compare `week` with a week such as"),
        ("week < sex", "compare one attribute"),
        ("week < DATE 'soon'", "not hold 'DATE'"),
        ("week LIKE '2024%'", "LIKE"),
    ],
)
def test_comparison_that_means_nothing_is_refused_with_what_would(
    condition: str, message: str
) -> None:
    with pytest.raises(SqlError, match=message):
        selected(condition)


def test_periods_are_grouped_in_order_and_not_summed() -> None:
    domain = domain_from_document({"attributes": [WEEK, SEX]})
    text = "SELECT week, COUNT(*) FROM v WHERE week > '2024-W12' GROUP BY week"
    statement = parse_statement(text, domain, dataset="v")
    assert [row.group for row in statement.rows] == [("2024-W13",), ("2024-W14",), ("2024-W15",)]
    with pytest.raises(SqlError, match="calculate with numbers: `week` has periods"):
        parse_statement("SELECT AVG(week) FROM v", domain, dataset="v")


@pytest.mark.parametrize(
    ("text", "course"),
    [
        ("SELECT sex, week AS w, COUNT(*) FROM v GROUP BY sex, week", (1, weeks(*range(10, 16)))),
        (
            "SELECT week, COUNT(*) FROM v WHERE week <> '2024-W12' GROUP BY week",
            (0, weeks(*range(10, 16))),
        ),
        (
            "SELECT DATE_TRUNC('month', week), COUNT(*) FROM v GROUP BY 1",
            (0, ["2024-03", "2024-04"]),
        ),
        ("SELECT sex, COUNT(*) FROM v GROUP BY sex", None),
        ("SELECT week = '2024-W12' AS it, COUNT(*) FROM v GROUP BY 1", None),
    ],
)
def test_statement_knows_which_groups_follow_the_course_of_time(
    text: str, course: tuple[int, list[str]] | None
) -> None:
    domain = domain_from_document({"attributes": [WEEK, SEX]})
    found = parse_statement(text, domain, dataset="v").course
    assert (found and (found.group, list(found.names))) == course


def test_course_of_time_holds_sealed_periods_alone() -> None:
    domain = sealed_domain(domain_from_document({"attributes": [WEEK, SEX]}), "week", 2)
    text = "SELECT week, COUNT(*) FROM v GROUP BY week"
    found = parse_statement(text, domain, dataset="v").course
    assert found is not None
    assert list(found.names) == weeks(10, 11)


def grouped(text: str, item: dict[str, object]) -> dict[tuple[str | None, ...], list[str]]:
    """The periods in each group of GROUP BY."""
    domain = domain_from_document({"attributes": [item, SEX]})
    statement = parse_statement(
        f"SELECT {text}, COUNT(*) FROM v GROUP BY {text}", domain, dataset="v"
    )
    names, found = domain.attributes[0].value_names, {}
    for row in statement.rows:
        (cell,) = row.cells
        assert isinstance(cell, Sum)
        (term,) = cell.query.terms
        dense = term.factors[0].weights.dense
        found[row.group] = [n for n, weight in zip(names, dense, strict=True) if weight]
    return found


@pytest.mark.parametrize("unit", ["month", "quarter", "year"])
@pytest.mark.parametrize("every", ["day", "week"])
def test_longer_periods_hold_what_the_days_or_thursdays_say(every: str, unit: str) -> None:
    """By Python's dates: a week is where its Thursday is."""
    first = {"day": "2019-12-29", "week": "2019-W52"}[every]
    expected: dict[tuple[str, ...], list[str]] = {}
    for i in range(500):
        day = date(2019, 12, 29) + timedelta(days=i)
        if every == "week":
            day = date(2019, 12, 26) + timedelta(days=7 * i)
        year, week, _ = day.isocalendar()
        whole = {
            "month": f"{day:%Y-%m}",
            "quarter": f"{day.year}-Q{(day.month + 2) // 3}",
            "year": f"{day.year}",
        }[unit]
        name = f"{year}-W{week:02}" if every == "week" else str(day)
        expected.setdefault((whole,), []).append(name)
    item = {"name": "t", "kind": "period", "every": every, "first": first, "count": 500}
    assert list(found := grouped(f"date_trunc('{unit}', t)", item)) == list(expected)
    assert found == expected
    if unit == "year":
        return
    # MONTH(t) and QUARTER(t) are those of all years together.
    together: dict[tuple[str, ...], list[str]] = {}
    for (name,), names in expected.items():
        part = name.split("-")[1].removeprefix("Q").lstrip("0")
        together.setdefault((part,), []).extend(names)
    assert grouped(f"{unit}(t)", item) == together


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("day(week)", "take no less than a week of `week`"),
        ("date_trunc('hour', week)", "truncate to one of 'day', 'week', 'month'"),
        ("month(sex)", "take the month of an attribute of dates or calendar periods, not of `sex`"),
        ("month('x')", "take the month of an attribute of dates or periods"),
    ],
)
def test_group_by_a_period_that_there_is_not_is_refused(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=re.escape(message)):
        grouped(text, WEEK)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("LAST 2 WEEKS", weeks(13, 14)),
        ("last 1 week", weeks(14)),
        ("LAST 9 PERIODS", weeks(10, 11, 12, 13, 14)),
        ("NOT LAST 2 WEEKS AND week < '2024-W13'", weeks(10, 11, 12)),
        ("sex = 'F' AND LAST 1 WEEK", weeks(14)),
    ],
)
def test_the_last_periods_are_those_that_have_their_data(condition: str, found: list[str]) -> None:
    whole = domain_from_document({"attributes": [WEEK, SEX]})
    domain = sealed_domain(whole, "week", 5)
    statement = parse_statement(f"SELECT COUNT(*) FROM v WHERE {condition}", domain, dataset="v")
    (cell,) = statement.rows[0].cells
    assert isinstance(cell, Sum)
    (term,) = cell.query.terms
    names = whole.attributes[0].value_names
    dense = term.by_axis[0].dense
    assert [name for name, weight in zip(names, dense, strict=True) if weight] == found


def test_where_all_data_are_there_the_last_periods_are_the_last_declared() -> None:
    assert selected("LAST 2 WEEKS") == weeks(14, 15)


@pytest.mark.parametrize(
    ("condition", "item", "message"),
    [
        ("LAST 0 WEEKS", WEEK, "must let LAST be a whole number > 0"),
        ("LAST 2.5 WEEKS", WEEK, "must let LAST be a whole number > 0"),
        ("LAST 2 MONTHS", WEEK, "must count the periods of `week` in weeks .*LAST 2 WEEKS"),
        ("LAST 2 WEEKS", SEX, "must not say LAST: the dataset has no attribute of periods"),
    ],
)
def test_last_periods_that_are_none_are_refused(
    condition: str, item: dict[str, object], message: str
) -> None:
    items = [item] if item is SEX else [item, SEX]
    domain = domain_from_document({"attributes": items})
    with pytest.raises(SqlError, match=message):
        parse_statement(f"SELECT COUNT(*) FROM v WHERE {condition}", domain, dataset="v")


def test_last_periods_of_a_dataset_without_any_yet_are_refused() -> None:
    whole = domain_from_document({"attributes": [WEEK, SEX]})
    domain = sealed_domain(whole, "week", 0)
    with pytest.raises(PeriodNotSealedError):
        parse_statement("SELECT COUNT(*) FROM v WHERE LAST 2 WEEKS", domain, dataset="v")


@pytest.mark.parametrize(
    "clauses", ["AS OF '2024-W12'", "WITHIN 5 AS OF '2024-W12' CONFIDENCE 0.9"]
)
def test_a_statement_asks_as_it_was(clauses: str) -> None:
    whole = domain_from_document({"attributes": [WEEK, SEX]})
    now, then = sealed_domain(whole, "week", 5), sealed_domain(whole, "week", 3)
    text = "SELECT week, COUNT(*) FROM v WHERE LAST 2 WEEKS GROUP BY week"
    statement = parse_statement(f"{text} {clauses}", now, dataset="v")
    assert statement.rows == parse_statement(text, then, dataset="v").rows
    assert [row.group for row in statement.rows] == [("2024-W11",), ("2024-W12",)]


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ("AS OF '2024-W20'", "must be a period of `week`"),
        ("AS OF '2024-W11' AS OF '2024-W11'", "must say AS OF once"),
    ],
)
def test_a_period_to_ask_as_of_that_is_none_is_refused(clauses: str, message: str) -> None:
    domain = sealed_domain(domain_from_document({"attributes": [WEEK, SEX]}), "week", 5)
    with pytest.raises(SqlError, match=message):
        parse_statement(f"SELECT COUNT(*) FROM v {clauses}", domain, dataset="v")


def test_as_of_a_period_to_come_and_of_data_that_do_not_grow_are_refused() -> None:
    whole = domain_from_document({"attributes": [WEEK, SEX]})
    text = "SELECT COUNT(*) FROM v AS OF '2024-W15'"
    with pytest.raises(PeriodNotSealedError, match="The last sealed one is 2024-W14"):
        parse_statement(text, sealed_domain(whole, "week", 5), dataset="v")
    with pytest.raises(
        SqlError, match=r"must not say AS OF .* The data of this dataset do not grow"
    ):
        parse_statement(text, whole, dataset="v")


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("SELECT month(week), COUNT(*) FROM v GROUP BY month(week)", ["month"]),
        ("SELECT month(v.week) AS month, COUNT(*) FROM v GROUP BY month", ["month"]),
        ("SELECT EXTRACT(YEAR FROM week) AS y, COUNT(*) FROM v GROUP BY y", ["year"]),
        (
            "SELECT date_trunc('quarter', w) AS q, COUNT(*) FROM (SELECT week AS w FROM v) AS i "
            "GROUP BY q",
            ["quarter"],
        ),
        ("SELECT COUNT(*) FROM v WHERE quarter(week) = '2024-Q1'", ["quarter"]),
        (
            "SELECT month(week) AS m, COUNT(*) FROM v WHERE year(week) = '2024' GROUP BY m",
            ["month", "year"],
        ),
        (
            "SELECT 'all' AS m, COUNT(*) FROM v UNION ALL "
            "SELECT month(week), COUNT(*) FROM v GROUP BY month(week)",
            ["month"],
        ),
        ("SELECT week(week), COUNT(*) FROM v GROUP BY week(week)", []),
        ("SELECT week, COUNT(*) FROM v WHERE week >= '2024-W11' GROUP BY week", []),
    ],
)
def test_a_statement_says_where_weeks_count(text: str, units: list[str]) -> None:
    domain = domain_from_document({"attributes": [WEEK, SEX]})
    found = parse_statement(text, domain, dataset="v").remarks
    assert sorted(found) == [f"Each week counts in the {unit} of its Thursday." for unit in units]


def test_years_of_other_periods_need_no_remark() -> None:
    domain = domain_from_document({"attributes": [{**WEEK, "every": "month", "first": "2024-01"}]})
    text = "SELECT year(week), COUNT(*) FROM v GROUP BY year(week)"
    assert parse_statement(text, domain, dataset="v").remarks == ()


@pytest.mark.parametrize(
    "text",
    [
        "FROM v LAST 2 WEEKS",
        "FROM (SELECT week FROM v) LAST 2 WEEKS",
        "FROM (SELECT week FROM v LAST 2 WEEKS)",
        "FROM v WHERE sex = 'F' LAST 2 WEEKS",
        "FROM v GROUP BY sex LAST 2 WEEKS",
    ],
)
def test_last_periods_beside_where_are_told_to_stand_in_it(text: str) -> None:
    domain = domain_from_document({"attributes": [WEEK, SEX]})
    with pytest.raises(SqlError, match=r"It is a condition: WHERE .* LAST 4 WEEKS"):
        parse_statement(f"SELECT COUNT(*) {text}", domain, dataset="v")


def test_a_dataset_has_no_other_columns_by_its_alias() -> None:
    domain = domain_from_document({"attributes": [WEEK, SEX]})
    with pytest.raises(SqlError, match=r"one name, without columns .* Rename columns in SELECT"):
        parse_statement("SELECT COUNT(*) FROM v AS t (a, b)", domain, dataset="v")


SAME_DAYS = {
    "date_trunc(week, MONTH) = '2024-03'": "date_trunc('month', week) = '2024-03'",
    "date_part('month', week) = 3": "EXTRACT(MONTH FROM week) = 3",
    "to_char(week, 'YYYY-MM') = '2024-03'": "date_trunc('month', week) = '2024-03'",
    "to_char(week, 'YYYY-MM-DD') = '2024-03-11'": "week = '2024-W11'",
    "date_trunc('week', week)::date = '2024-03-11'": "week = '2024-W11'",
    "week >= TO_TIMESTAMP('2024-03-11 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')": (
        "week >= DATE '2024-03-11'"
    ),
    "week >= TO_DATE('2024-03-11', 'YYYY-MM-DD')": "week >= DATE '2024-03-11'",
    "week < CAST('2024-03-25' AS TIMESTAMP)": "week < DATE '2024-03-25'",
    "week < '2024-03-25T00:00:00'::timestamp": "week < DATE '2024-03-25'",
    "week >= DATE '2024-03-25' - INTERVAL '14 days'": "week >= DATE '2024-03-11'",
    "week < DATE '2024-03-11' + INTERVAL '2' WEEK": "week < DATE '2024-03-25'",
    "week < DATE '2024-02-11' + INTERVAL '1 month'": "week < DATE '2024-03-11'",
    "week < DATE '2024-05-31' - INTERVAL '1' QUARTER + INTERVAL '11 days'": "week < '2024-03-11'",
    "week >= DATE '2025-03-11' - INTERVAL '1 year'": "week >= DATE '2024-03-11'",
    "week BETWEEN '2024-03-11'::date AND DATE '2024-03-24'": "week IN ('2024-W11', '2024-W12')",
}


@pytest.mark.parametrize("said", SAME_DAYS)
def test_days_and_longer_periods_are_known_by_the_words_of_other_systems(said: str) -> None:
    assert selected(said) == selected(SAME_DAYS[said]) != []


@pytest.mark.parametrize(
    ("condition", "because"),
    [
        ("week >= NOW() - INTERVAL '4 weeks'", "must not depend on the clock"),
        ("week >= DATE '2024-03-25' - INTERVAL '1 hour'", "a day is the finest time of `week`"),
        ("week >= DATE '2024-03-25' + INTERVAL '99999 months'", "days of the calendar"),
        ("week >= DATE '2024-03-25' + INTERVAL '900000 weeks'", "days of the calendar"),
        ("to_char(week, 'Day') = 'Monday'", "write dates as 'YYYY'"),
        ("week >= TO_TIMESTAMP('2024-03-11 12:30:00', 'X')", "periods or dates in quotes"),
        ("UPPER(week) = '2024-W11'", "`week` has none"),
    ],
)
def test_what_is_no_fixed_day_is_refused(condition: str, because: str) -> None:
    with pytest.raises(SqlError, match=because):
        selected(condition)


def test_a_group_of_longer_periods_is_named_by_its_first_day_where_it_is_a_date() -> None:
    domain = domain_from_document({"attributes": [WEEK, SEX]})
    for by, names in {
        "DATE_TRUNC('week', week)::date": ["2024-03-04", "2024-03-11"],
        "CAST(DATE_TRUNC('month', week) AS DATE)": ["2024-03-01", "2024-04-01"],
        "TO_CHAR(week, 'YYYY')": ["2024"],
        "DATE_TRUNC(week, QUARTER)": ["2024-Q1", "2024-Q2"],
    }.items():
        text = f"SELECT {by} AS d, COUNT(*) FROM v GROUP BY 1 ORDER BY 1"
        rows = parse_statement(text, domain, dataset="v").rows
        assert [row.group[0] for row in rows][: len(names)] == names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT MONTH(d), COUNT(*) FROM v GROUP BY MONTH(d)", True),
        ("SELECT COUNT(*) FROM v WHERE CASE WHEN TRUE THEN MONTH(d) END IN (1, 2)", True),
        ("SELECT EXTRACT(MONTH FROM d) AS m, COUNT(*) FROM v GROUP BY m", False),
        ("SELECT DATE_TRUNC('month', d) AS m, COUNT(*) FROM v GROUP BY m", False),
        ("SELECT COUNT(*) FROM v WHERE MONTH(d) = 3", False),
        ("SELECT COUNT(*) FROM v WHERE MONTH(d) = '2024-03'", False),
        ("SELECT MONTH(one), COUNT(*) FROM v GROUP BY 1", False),
    ],
)
def test_months_of_all_years_are_told_to_be_such(text: str, *, said: bool) -> None:
    dates = [
        {"name": name, "kind": "date", "every": "month", "first": "2024-01", "count": n}
        for name, n in (("d", 24), ("one", 12))
    ]
    domain = domain_from_document({"attributes": dates})
    found = parse_statement(text, domain, dataset="v").remarks
    remark = (
        "MONTH(d) is a number of all years together, as in SQL; DATE_TRUNC('month', d) tells "
        "years apart."
    )
    assert found == ((remark,) if said else ())


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("DAYNAME(d)", ["Saturday", "Sunday", "Monday"]),
        ("STRFTIME(d, '%Y-%m')", ["2023-12", "2024-01"]),
        ("LAST_DAY(d)", ["2023-12-31", "2024-01-31"]),
        ("YEAR(m) * 100 + MONTH(m)", ["202311", "202312", "202401"]),
        ("MONTHNAME(m)", ["November", "December", "January"]),
        ("MONTH(d) || '/' || s", ["12/a", "12/b", "1/a", "1/b"]),
        ("EXTRACT(DOY FROM d)", ["1", "364", "365"]),
        ("EXTRACT(ISODOW FROM d) IN (6, 7)", ["false", "true"]),
        ("CASE WHEN DAYNAME(d) LIKE 'S%' THEN 'weekend' ELSE 'week' END", ["weekend", "week"]),
    ],
)
def test_any_function_of_days_is_a_group(by: str, names: list[str]) -> None:
    """30 December 2023 was a Saturday."""
    dates = [
        {"name": "d", "kind": "date", "every": "day", "first": "2023-12-30", "count": 3},
        {"name": "m", "kind": "date", "every": "month", "first": "2023-11", "count": 3},
    ]
    domain = domain_from_document({"attributes": [*dates, {"name": "s", "labels": ["a", "b"]}]})
    text = f"SELECT {by} AS g, COUNT(*) FROM v GROUP BY g"
    assert [row.group[0] for row in parse_statement(text, domain, dataset="v").rows] == names


@pytest.mark.parametrize("by", ["DAYNAME(week)", "MONTH(week) % DAY(week)"])
def test_a_function_of_days_is_none_of_weeks(by: str) -> None:
    with pytest.raises(SqlError, match="take no less than a week of `week`"):
        grouped(by, WEEK)


def test_what_follows_from_periods_to_come_is_no_group() -> None:
    days = {"name": "d", "kind": "period", "every": "day", "first": "2023-12-30", "count": 5}
    domain = sealed_domain(domain_from_document({"attributes": [days]}), "d", 2)
    text = "SELECT DAYNAME(d) AS g, COUNT(*) FROM v GROUP BY g"
    rows = parse_statement(text, domain, dataset="v").rows
    assert [row.group[0] for row in rows] == ["Saturday", "Sunday"]
