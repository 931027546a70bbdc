"""What the owner is told: how far a read is, and what became of the rows, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qserver.query.domain import Domain
from tests.worker.private.reading import KEY
from tests.worker.sources.tables import DOMAIN, as_csv
from worker.coding.tally import Progress, Tally
from worker.private.snapshot import read_snapshot
from worker.private.truncation import PeriodRule, PersonRule

AT = "2024-03-05"


def told(
    tmp_path: Path, rows: Sequence[tuple[object, ...]], *, most: int | None = None
) -> list[str]:
    said = list[str]()
    person = None if most is None else PersonRule("person", most, PeriodRule(3, most, most))
    read_snapshot(
        as_csv(tmp_path / "rows.csv", rows),
        DOMAIN,
        key=KEY,
        folder=tmp_path,
        person=person,
        say=said.append,
    )
    return said


def test_every_column_that_is_not_counted_as_it_stands_is_told_with_its_share(
    tmp_path: Path,
) -> None:
    fine: list[tuple[object, ...]]
    fine = [(30, "Male", 0.5, AT, True, f"p{i}", "") for i in range(1000)]
    odd = [
        (-3, "Male", 0.5, AT, True, "q1", ""),  # clamped
        (None, "Male", 0.5, AT, True, "q2", ""),  # dropped: missing age
        (30, "x", 7.5, AT, True, "q3", ""),  # dropped: dose outside; sex is other
        (30, "Male", 0.5, "2025-01-01", True, "q4", ""),  # dropped: another year
    ]
    assert told(tmp_path, fine + odd) == [
        "private, for you alone: 1,004 rows read, 1,001 kept",
        "  3 dropped by the domain (0.3 %)",
        "  age: 1 missing (under 0.1 %), dropped",
        "  age: 1 outside (under 0.1 %), counted in the nearest bin",
        "  sex: 1 outside (under 0.1 %), counted as other",
        "  dose: 1 outside (under 0.1 %), dropped",
        "  day: 1 outside (under 0.1 %), dropped",
    ]


def test_more_than_one_in_twenty_is_a_warning(tmp_path: Path) -> None:
    rows = [(30, "male" if i < 6 else "Male", 0.5, AT, True, "", "") for i in range(100)]
    assert told(tmp_path, rows) == [
        "private, for you alone: 100 rows read, 100 kept",
        "  sex: 6 outside (6.0 %), counted as other - WARNING: more than 5% of the rows",
    ]
    rows = [(30, "male" if i < 5 else "Male", 0.5, AT, True, "", "") for i in range(100)]
    assert not any("WARNING" in line for line in told(tmp_path, rows))


def test_what_a_person_has_too_much_is_told_apart(tmp_path: Path) -> None:
    rows = [(30, "Male", 0.5, AT, True, "ann", "")] * 3 + [(31, "Male", 0.5, AT, True, "", "")]
    lines = told(tmp_path, rows, most=2)
    assert "private, for you alone: 4 rows read, 2 kept" in lines
    assert any("2 dropped because of records per person (50.0 %)" in line for line in lines)


def test_a_read_of_nothing_has_a_report_too() -> None:
    tally = Tally.of(Domain(DOMAIN.attributes[:1]))
    assert tally.lines() == ["private, for you alone: 0 rows read, 0 kept"]


class Clock:
    """Seconds that pass when they are told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_has_a_rate_and_an_end() -> None:
    clock, said = Clock(), list[str]()
    progress = Progress(10_000, say=said.append, clock=clock)
    progress.add(500)
    assert said == []
    clock.now = 5.0
    progress.add(2_000)
    clock.now = 6.0
    progress.add(1_000)
    clock.now = 500.0
    progress.add(500)
    clock.now = 501.0
    progress.end()
    assert said == [
        "read 2,500 of about 10,000 rows, 500 a second, 15 s to go",
        "read 4,000 of about 10,000 rows, 8 a second, 12 min to go",
        "read 4,000 rows in 8 min, 8 a second",
    ]


def test_where_nobody_knows_how_many_rows_there_are_the_rate_is_told_alone() -> None:
    clock, said = Clock(), list[str]()
    for n_rows in (None, 10):
        progress = Progress(n_rows, say=said.append, clock=clock)
        clock.now += 4.0
        progress.add(800)
    assert said == ["read 800 rows, 200 a second"] * 2
