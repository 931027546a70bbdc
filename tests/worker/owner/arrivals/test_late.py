"""Records that come too late, and what `--strict` stops for."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.errors import ConfigError
from tests.growing import CAPACITY, Growing, Row, rows_of, week, write_rows
from worker import cli
from worker.owner.arrivals.findings import StrictError

LATE: list[Row] = [(week(1), "Female", f"late{i}") for i in range(40)]


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Growing:
    return Growing.begin(tmp_path, store_url)


def count(town: Growing, i: int) -> float:
    return town.ask({"week": week(i)}, length=8).estimate


@pytest.mark.parametrize(("late", "in_week_3"), [(None, 200), ("drop", 200), ("move", 240)])
def test_late_records_are_dropped_or_counted_in_the_first_open_week(
    town: Growing, late: str | None, in_week_3: int
) -> None:
    """Week 1 is sealed with 200 records, and keeps them."""
    told = list[str]()
    rows = [*rows_of(3), *LATE]
    done = town.append(3, rows, late=late, say=told.append)  # type: ignore[arg-type]
    assert (done.n_late, done.late) == (40, late or "drop")
    what = "counted in 2024-W04" if late == "move" else "left out"
    assert (
        f"private, for you alone: 40 records are of periods before {week(3)}, which are sealed: "
        f"{what}" in told
    )
    assert abs(count(town, 1) - 200) < 30
    assert abs(count(town, 3) - in_week_3) < 15
    assert town.append(3, rows, late=late).again  # type: ignore[arg-type]


def test_the_other_choice_is_not_the_same_append(town: Growing) -> None:
    rows = [*rows_of(3), *LATE]
    town.append(3, rows, late="move")
    with pytest.raises(ConfigError, match="only with the same --late"):
        town.append(3, rows, late="drop")


def test_late_records_move_to_the_first_of_several_open_weeks(town: Growing) -> None:
    town.append(4, [*rows_of(3), *rows_of(4), *LATE], late="move")
    assert abs(count(town, 3) - 240) < 15
    assert abs(count(town, 4) - 200) < 15


def test_a_moved_record_takes_a_place_of_its_person(tmp_path: Path, store_url: str) -> None:
    """k = 2: ann has one record in week 0, so one of three moved ones is kept."""
    first: list[Row] = [(week(0), "Female", "ann"), *rows_of(1), *rows_of(2)]
    town = Growing.begin(tmp_path, store_url, k=2, rows=first)
    done = town.append(3, [(week(2), "Female", "ann")] * 3, late="move")
    assert (done.n_late, done.n_dropped) == (3, 2)


def test_moved_records_count_towards_the_capacity(town: Growing) -> None:
    rows = [*rows_of(3, CAPACITY - 10), *LATE]
    with pytest.raises(ConfigError, match="be at least the number of records"):
        town.append(3, rows, late="move")
    assert town.append(3, rows, late="drop").sealed == 4


def test_attach_says_what_appends_do_unless_they_say(tmp_path: Path, store_url: str) -> None:
    town = Growing.begin(tmp_path, store_url, late="move")
    rows = [*rows_of(3), *LATE]
    assert town.append(3, rows).late == "move"
    assert town.append(4, [*rows_of(4), *LATE], late="drop").late == "drop"


BAD: list[tuple[list[Row], str]] = [
    ([*rows_of(3), *LATE], f"40 records of periods before {week(3)}, which are sealed"),
    ([*rows_of(3), (week(3), "none", "x")], "1 records whose `sex` is outside the domain"),
    ([*rows_of(3), ("1999-W01", "Male", "x")], "1 records whose `week` is outside the domain"),
    ([*rows_of(3), ("", "Male", "x")], "1 records that are left out because a value is missing"),
    ([*rows_of(3), (week(3), "Male", "p3-0")], "1 were more than 1 of a person in a period"),
    ([*rows_of(3), (week(3), "Male", "p0-0")], "1 were more than 1 of a person in all"),
    ([*rows_of(3), (week(3), "Male", "")], "1 name no person"),
    (rows_of(3, CAPACITY + 1), "1 periods with more records than the capacity"),
]


@pytest.mark.parametrize(("rows", "message"), BAD)
def test_strict_stops_before_anything_is_sealed(
    town: Growing, rows: list[Row], message: str
) -> None:
    path = town.registry.journal("town", create=False).path
    before = path.read_bytes()
    with pytest.raises(StrictError, match=message) as caught:
        town.append(3, rows, strict=True)
    assert "An append that is put off because of what is in the data may itself tell" in str(
        caught.value
    )
    assert town.n_shown == 3
    assert path.read_bytes() == before
    assert town.append(3, rows_of(3), strict=True).sealed == 4


def test_strict_names_all_that_it_found(town: Growing) -> None:
    with pytest.raises(StrictError, match=r"40 records of periods .*; 1 records whose `sex`"):
        town.append(3, [*rows_of(3), *LATE, (week(3), "none", "x")], late="move", strict=True)


@pytest.mark.usefixtures("full_minute")
def test_strict_ends_with_a_code_of_its_own(
    town: Growing, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_rows(town.settings.state_dir / "w3.csv", [*rows_of(3), *LATE])
    arguments = ["append", "people", "--data", str(data), "--to", week(3)]
    arguments += ["--state", str(town.settings.state_dir)]
    arguments += ["--redis-url", town.settings.redis_url]
    assert cli.main([*arguments, "--strict"]) == 3
    assert "--strict found 40 records of periods before" in capsys.readouterr().err
    assert cli.main([*arguments, "--late", "move"]) == 0
    shown = capsys.readouterr()
    assert "40" not in shown.out
    assert f"counted in {week(3)}" in shown.err
