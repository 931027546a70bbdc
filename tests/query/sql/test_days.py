"""Seconds since 1970, moves and steps of days: each period is where Python's calendar puts it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import pytest

from qserver.errors import SqlError
from qserver.query.domain_file import domain_from_document
from qserver.query.sql.parser import parse_statement
from tests.query.sql.test_periods import selected

DAY = {"name": "d", "kind": "period", "every": "day", "first": "2024-01-20", "count": 60}
WEEK = {"name": "d", "kind": "period", "every": "week", "first": "2024-W03", "count": 12}
MONTH = {"name": "d", "kind": "period", "every": "month", "first": "2023-11", "count": 6}
MONDAY = date(2024, 1, 1)
DATA: dict[str, dict[str, object]] = {"day": DAY, "week": WEEK, "month": MONTH}
FIRSTS = {
    "day": [date(2024, 1, 20) + timedelta(i) for i in range(60)],
    "week": [date(2024, 1, 15) + timedelta(7 * i) for i in range(12)],
    "month": [date(2023, 11, 1), date(2023, 12, 1), *(date(2024, m, 1) for m in range(1, 5))],
}


def seconds(day: date) -> int:
    return (day - date(1970, 1, 1)).days * 86_400


def step(day: date, n_days: int, origin: date) -> date:
    return day - timedelta((day - origin).days % n_days)


def month_later(day: date) -> date:
    """The same day of the next month, or its last."""
    first = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    last = date(first.year + first.month // 12, first.month % 12 + 1, 1) - timedelta(1)
    return first.replace(day=min(day.day, last.day))


OF_A_DAY: dict[str, Callable[[date], date | int]] = {
    "FLOOR(EXTRACT(EPOCH FROM d) / 86400) * 86400": seconds,
    "FLOOR(EXTRACT(EPOCH FROM d) / 604800) * 604800": lambda d: seconds(d) // 604_800 * 604_800,
    "TO_TIMESTAMP(FLOOR(EXTRACT(EPOCH FROM d) / 604800) * 604800)": lambda d: step(
        d, 7, date(1970, 1, 1)
    ),
    "TIME_BUCKET('604800.000s', d)": lambda d: step(d, 7, MONDAY),
    "TIME_BUCKET(INTERVAL '2 weeks', d, DATE '2024-01-08')": lambda d: step(
        d, 14, MONDAY + timedelta(7)
    ),
    "DATE_BIN('7 days', d, TIMESTAMP '2024-01-03')": lambda d: step(d, 7, date(2024, 1, 3)),
    "DATE_BIN('72 hours', d, '2024-01-03')": lambda d: step(d, 3, date(2024, 1, 3)),
    "d + INTERVAL '1 month'": month_later,
    "d + INTERVAL '1 month 3 days'": lambda d: month_later(d) + timedelta(3),
    "d + INTERVAL '3 days 1 month'": lambda d: month_later(d) + timedelta(3),
    "d - INTERVAL '-1 month 1 week 24 hours'": lambda d: month_later(d) - timedelta(8),
    "d + INTERVAL 'P1M3D'": lambda d: month_later(d) + timedelta(3),
    "d + '1 year 2 mons'::INTERVAL - INTERVAL '13' MONTH": month_later,
    "(d AT TIME ZONE 'UTC') + INTERVAL '1 day'": lambda d: d + timedelta(1),
    "TIMEZONE('Europe/Oslo', d AT TIME ZONE 'Europe/Oslo') + INTERVAL '1 day'": lambda d: (
        d + timedelta(1)
    ),
    "d - INTERVAL '-10' DAY": lambda d: d + timedelta(10),
    "DATE_TRUNC('week', d + INTERVAL '1 day') + INTERVAL '-1 day'": lambda d: step(
        d, 7, MONDAY - timedelta(1)
    ),
}


@pytest.mark.parametrize("every", DATA)
@pytest.mark.parametrize("text", OF_A_DAY)
def test_a_period_is_grouped_where_its_first_day_is(text: str, every: str) -> None:
    domain = domain_from_document({"attributes": [DATA[every]]})
    found = parse_statement(f"SELECT {text}, COUNT(*) FROM v GROUP BY 1", domain, dataset="v")
    expected = list(map(OF_A_DAY[text], FIRSTS[every]))
    assert [row.group for row in found.rows] == [(str(v),) for v in dict.fromkeys(expected)]
    value = expected[-1]
    said = f"= {value}" if isinstance(value, int) else f"= '{value}'"
    names = domain.attributes[0].value_names
    assert selected(f"{text} {said}", DATA[every]) == [
        name for name, one in zip(names, expected, strict=True) if one == value
    ]


SAME = {
    "TO_CHAR(DATE_TRUNC('week', d), 'YYYY-MM-DD') = '2024-02-12'": (
        "d BETWEEN '2024-02-12' AND '2024-02-18'"
    ),
    "DATE(d) >= DATE('2024-02-12')": "d >= '2024-02-12'",
    "d >= TO_TIMESTAMP(1707091200)": "d >= '2024-02-05'",
    "d < '2024-03-04'::date - INTERVAL '2 weeks'": "d < '2024-02-19'",
    "d >= DATE_TRUNC('week', DATE '2024-02-21') + '-7 days'::INTERVAL": "d >= '2024-02-12'",
    "d < DATE '2024-03-08' - INTERVAL '1 month 3 days'": "d < '2024-02-05'",
    "DATE_TRUNC('week', d AT TIME ZONE 'UTC' AT TIME ZONE 'Z') = '2024-02-12'": (
        "d BETWEEN '2024-02-12' AND '2024-02-18'"
    ),
    "DATE_TRUNC('week', d, 'UTC') = '2024-02-12'": "d BETWEEN '2024-02-12' AND '2024-02-18'",
    "d >= TIMESTAMP '2024-02-12 00:00:00' AT TIME ZONE 'UTC'": "d >= '2024-02-12'",
    "d >= DATE '2024-03-04' - 14": "d >= '2024-02-19'",
    "d >= CAST(DATE '2024-02-05' + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)": (
        "d >= '2024-03-04'"
    ),
}


@pytest.mark.parametrize("every", ["day", "week"])
@pytest.mark.parametrize("said", SAME)
def test_days_that_are_calculated_are_those_that_are_written_out(said: str, every: str) -> None:
    assert selected(said, DATA[every]) == selected(SAME[said], DATA[every]) != []


@pytest.mark.parametrize(
    ("condition", "because"),
    [
        ("d >= TO_TIMESTAMP(1707091201)", "a day is the finest time"),
        ("d >= TO_TIMESTAMP(1e30)", "a day is the finest time"),
        ("d + INTERVAL '1 hour' >= '2024-02-05'", "a day is the finest time of `d`"),
        ("d + INTERVAL '1 month 1 hour' >= '2024-02-05'", "a day is the finest time of `d`"),
        ("d + INTERVAL '1-2' >= '2024-02-05'", "a day is the finest time of `d`"),
        ("d - INTERVAL '3 days ago' >= '2024-02-05'", "a day is the finest time of it"),
        ("d + INTERVAL '1 day 02:00:00' >= '2024-02-05'", "a day is the finest time of it"),
        ("d AT TIME ZONE 'Europe/Oslo' >= '2024-02-05'", "a day is the finest time of `d`"),
        ("DATE_TRUNC('day', d, 'Asia/Tokyo') = '2024-02-05'", "a day is the finest time of `d`"),
        ("TIME_BUCKET('1 month 1 day', d) = '2024-02-05'", "join whole days or months"),
        ("sex + INTERVAL '1 day' = '2024-02-05'", "move days, not other values"),
        ("TIME_BUCKET('1 hour', d) = '2024-02-05'", "a day is the finest time of `d`"),
        ("TIME_BUCKET('-1 day', d) = '2024-02-05'", "join whole days"),
        ("DATE_BIN('7 days', d, d) = '2024-02-05'", "begin steps at a day that is written out"),
        ("EXTRACT(second FROM d) = 0", "EXTRACT one of YEAR, .*EPOCH"),
        ("d >= DATE_TRUNC('week', NOW())", "must not depend on the clock"),
    ],
)
def test_what_a_day_cannot_be_moved_by_is_refused(condition: str, because: str) -> None:
    with pytest.raises(SqlError, match=because):
        selected(condition, DAY)


def test_periods_stay_periods_in_a_union() -> None:
    """And what stands beside another thing there is a text."""
    domain = domain_from_document({"attributes": [WEEK]})

    def kinds(first: str, second: str) -> tuple[str, ...]:
        text = f"SELECT {first} AS x, COUNT(*) FROM v GROUP BY 1 "
        text += f"UNION ALL SELECT {second}"
        return parse_statement(text, domain, dataset="v").kinds

    assert kinds("d", "d, COUNT(*) FROM v GROUP BY 1") == ("day",)
    month = "DATE_TRUNC('month', d)"
    assert kinds(month, f"{month}, COUNT(*) FROM v GROUP BY 1") == ("time",)
    assert kinds("d", "'all', COUNT(*) FROM v") == ("text",)
