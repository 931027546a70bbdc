"""Periods out of a table that goes on holding all of them: only the named ones are taken."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from qserver.config import Settings
from tests.deployment import LOG, Deployment, write_people
from tests.growing import CAPACITY, WEEKS, Growing, Row, rows_of, week
from worker.cli import main
from worker.owner.arrivals.sealing import Appended, AppendRequest, append
from worker.owner.attach import AttachRequest, attach
from worker.private.parts import Part
from worker.private.present_content import read_parts, sealed_table
from worker.private.registry import Registry
from worker.sources.address import Address

ALL: list[Row] = [row for i in range(6) for row in rows_of(i, 100 + i)]


def as_table(kind: str, folder: Path, rows: Sequence[Row]) -> Address:
    """A table `visits`; in DuckDB with dates (the Tuesday), in SQLite with the names of weeks."""
    path = folder / f"visits.{kind}"
    path.unlink(missing_ok=True)
    if kind == "sqlite":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE visits (week, sex, who)")
            connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", rows)
            connection.commit()
    else:
        names = {name: i for i, name in enumerate(WEEKS.attributes[0].value_names)}
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE visits (week DATE, sex VARCHAR, who VARCHAR)")
            for name, sex, who in rows:
                day = f"DATE '2024-01-02' + {7 * names[name]}"
                connection.execute(f"INSERT INTO visits VALUES ({day}, ?, ?)", [sex, who])
    return Address(f"{kind}:///{path}", table="visits")


def begun(folder: Path, store_url: str, source: Address) -> Growing:
    """A dataset whose first three weeks come from a table that has six."""
    settings = Settings(
        redis_url=store_url, state_dir=folder, slot_ms=0, lease_ms=60_000, open_access=True
    )
    registry = Registry(folder)
    request = AttachRequest(
        name="people",
        data=source,
        domain=WEEKS,
        limit=Fraction(10),
        relation="add-remove",
        population="town",
        records_per_person=1,
        person_column="who",
        capacity=CAPACITY,
        to=week(2),
    )
    meta = attach(request, settings=settings, registry=registry, progress=lambda _text: None)
    return Growing(settings, registry, meta, source.path)


def appended(town: Growing, source: Address, i: int, said: list[str]) -> Appended:
    return append(
        AppendRequest("people", source, week(i), strict=True),
        settings=town.settings,
        registry=Registry(town.settings.state_dir),
        progress=said.append,
        log=LOG,
        pause=lambda _seconds: None,
    )


def sealed(town: Growing) -> list[int]:
    """The true number of records of each of six weeks that is sealed."""
    entry = town.registry.entry("people")
    table = read_parts(town.registry, entry, town.registry.journal("town", create=False))
    found = [sum(int((part.codes[0] == i).sum()) for part in _parts(town)) for i in range(6)]
    assert table.n_sealed == sum(n > 0 for n in found)
    return found


def _parts(town: Growing) -> list[Part]:
    entry = town.registry.entry("people")
    with town.registry.journal("town", create=False).exclusive() as journal:
        lines = list(journal.state.parts[entry.snapshot])
    return list(town.registry.parts(entry).read(lines))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_table_with_all_weeks_gives_the_named_ones(
    tmp_path: Path, store_url: str, kind: str
) -> None:
    """--strict does not count records of other weeks: they are sealed, or come later."""
    source, said = as_table(kind, tmp_path, ALL), list[str]()
    town = begun(tmp_path, store_url, source)
    assert sealed(town) == [100, 101, 102, 0, 0, 0]
    assert not appended(town, source, 3, said).again
    assert sealed(town) == [100, 101, 102, 103, 0, 0]
    # Records that came late into sealed weeks, and odd ones of weeks to come, change nothing.
    more = [*ALL, (week(1), "Female", "late"), (week(5), "nonsense", "odd")]
    assert not appended(town, as_table(kind, tmp_path, more), 4, said).again
    assert sealed(town) == [100, 101, 102, 103, 104, 0]
    assert appended(town, source, 4, said).again
    # DuckDB leaves the other weeks unread, but for a day at each end.
    n_other = [line for line in said if "of other periods" in line]
    assert bool(n_other) == (kind == "sqlite")


def test_a_rotation_takes_another_kind_of_source(
    tmp_path: Path, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Deployment.make(tmp_path, store_url)
    with closing(sqlite3.connect(tmp_path / "people.sqlite")) as connection:
        connection.execute("CREATE TABLE people (age, sex)")
        rows = [(20 + i % 10, "Male") for i in range(37)]
        connection.executemany("INSERT INTO people VALUES (?, ?)", rows)
        connection.commit()
    call = ["rotate", "people", "--source", f"sqlite:///{tmp_path}/people.sqlite"]
    place = ["--redis-url", store_url, "--state", str(tmp_path)]
    assert main([*call, *place, "--query", "SELECT * FROM people WHERE age < 25"]) == 0
    assert "20 rows read, 20 kept" in capsys.readouterr().err
    entry = Registry(tmp_path).entry("people")
    assert len(sealed_table(Registry(tmp_path), entry).codes[0]) == 20
    assert entry.data == f"sqlite:///{tmp_path}/people.sqlite"
    empty = write_people(tmp_path / "none.csv", [])
    assert main(["rotate", "people", "--data", str(empty), *place]) == 1
    assert "no rows" in capsys.readouterr().err
    assert Registry(tmp_path).entry("people") == entry
