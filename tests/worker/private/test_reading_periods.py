"""Dates and timestamps of private files into periods, held to Python's `datetime`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qserver.query.calendar import UNITS, Periods, Unit, number_of, text_of
from qserver.query.domain import Attribute, Domain
from tests.sweeps import examples
from tests.worker.private.reading import codes_in_order

NUMBER = Attribute("n", "integer", edges=tuple(range(200)))  # type: ignore[arg-type]
WEEKS = Attribute("t", "period", periods=Periods("week", "2024-W10", 4))


def read(path: Path, attribute: Attribute) -> dict[int, int]:
    """The code of each record that is kept, by its number."""
    codes, numbers = codes_in_order(path, Domain((attribute, NUMBER)), folder=path.parent)
    return dict(zip(numbers, codes, strict=True))


def csv(folder: Path, texts: list[str]) -> Path:
    path = folder / "rows.csv"
    lines = [f'{i},"{text.replace(chr(34), chr(34) * 2)}"' for i, text in enumerate(texts)]
    path.write_text("n,t\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2024-03-04", 0),
        (" 2024-03-10 ", 0),
        ("2024-03-11", 1),
        ("2024-W13", 3),
        ("2024-03-10T23:59", 0),
        ("2024-03-10 23:59:60", 0),
        ("2024-03-10T23:59:59.123456789Z", 0),
        ("2024-03-10T23:59:59-00:01", 1),
        ("2024-03-11T00:30:00+0100", 0),
        ("2024-03-11 00:30+01", 0),
        ("2024-03-11 00:30 +00:30", 1),
        ("2024-03-03", None),
        ("2024-04-01", None),
        ("2024-W14", None),
        ("2024-w13", None),
        ("2024-02-30", None),
        ("0000-01-01", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("2024-03-04T24:00", None),
        ("2024-03-04T12:60", None),
        ("2024-3-4", None),
        ("04/03/2024", None),
        ("20240304", None),
        ("2024-03-04Z", None),
        ("2024-03-04 x", None),
        ("infinity", None),
        ("", None),
        ("9" * 40, None),
        ("'; DROP TABLE t; --", None),
    ],
)
def test_text_is_in_the_week_of_its_day_in_utc_or_left_out(
    tmp_path: Path, text: str, code: int | None
) -> None:
    assert read(csv(tmp_path, [text, "2024-W10"]), WEEKS) == {1: 0} | (
        {} if code is None else {0: code}
    )


moments = st.datetimes(datetime(1900, 1, 3), datetime(2150, 1, 1))
zones = st.one_of(st.none(), st.integers(-14 * 60, 14 * 60))


@pytest.mark.slow
@settings(
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(UNITS), st.lists(st.tuples(moments, zones), min_size=1, max_size=60))
def test_timestamps_are_coded_as_datetime_says(
    tmp_path: Path, unit: Unit, stamps: list[tuple[datetime, int | None]]
) -> None:
    start, texts, expected = number_of(unit, datetime(1950, 1, 9)), [], {}
    periods = Periods(unit, text_of(unit, start), 100)
    for i, (moment, minutes) in enumerate(stamps):
        zone = None if minutes is None else timezone(timedelta(minutes=minutes))
        stamp = moment.replace(tzinfo=zone)
        texts.append(stamp.isoformat())
        day = (stamp if zone is None else stamp.astimezone(UTC)).date()
        code = number_of(unit, day) - start
        expected |= {i: code} if 0 <= code < 100 else {}
    texts.append(periods.texts[-1])
    expected[len(stamps)] = 99
    found = read(csv(tmp_path, texts), Attribute("t", "period", periods=periods))
    assert found == expected


@pytest.mark.slow
@given(st.lists(st.text(max_size=30), min_size=1, max_size=50))
@settings(
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_text_makes_reading_fail(tmp_path: Path, texts: list[str]) -> None:
    path = tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE x (n INT, t VARCHAR)")
        connection.executemany("INSERT INTO x VALUES (?, ?)", list(enumerate([*texts, "2024-W11"])))
        connection.execute(f"COPY x TO '{path}' (FORMAT parquet)")
    assert read(path, WEEKS)[len(texts)] == 1


@pytest.mark.parametrize(
    "sql",
    [
        "DATE '2024-03-11'",
        "TIMESTAMP '2024-03-11 00:00:00'",
        "TIMESTAMP_NS '2024-03-17 23:59:59.999999999'",
        "TIMESTAMPTZ '2024-03-10 23:30:00-01:00'",
        "TIMESTAMPTZ '2024-03-18 00:30:00+01:00'",
        "'2024-W11'",
    ],
)
def test_columns_of_parquet_are_coded_by_their_day(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 0 AS n, {sql} AS t) TO '{path}' (FORMAT parquet)")
    assert read(path, WEEKS) == {0: 1}


def test_years_may_be_whole_numbers_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 0 AS n, 2025 AS t) TO '{path}' (FORMAT parquet)")
    assert read(path, Attribute("t", "period", periods=Periods("year", "2024", 3))) == {0: 1}


def test_labels_without_a_calendar_take_their_texts_alone(tmp_path: Path) -> None:
    waves = Attribute("t", "period", ("spring", "2024-03"))
    assert read(csv(tmp_path, ["2024-03", "spring", "2024-03-01"]), waves) == {0: 1, 1: 0}
