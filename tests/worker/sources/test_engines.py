"""Every engine: one fingerprint for the same records, one moment, and only the days asked for."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from tests.worker.private.reading import KEY, snapshot_of
from tests.worker.sources.bucket import SECRET, Bucket
from tests.worker.sources.engines import Postgres
from tests.worker.sources.tables import (
    DOMAIN,
    as_csv,
    as_duckdb,
    as_folder,
    as_parquet,
    as_sqlite,
    random_rows,
)
from worker.coding.wanted import WantedPeriods
from worker.private.causal import PeriodRule
from worker.private.snapshot import read_records
from worker.private.truncation import PersonRule
from worker.sources import opening
from worker.sources.address import Address
from worker.sources.opening import open_source

pytestmark = pytest.mark.engines
PERSON = PersonRule("person", 4, PeriodRule(3, 2, 4))
N_TABLES = 200


def adbc_of(path: Path) -> Address:
    """An SQLite file through its ADBC driver."""
    uri = f"uri={path}"
    return Address("adbc:sqlite", query="SELECT * FROM visits", options=(uri,))


def test_200_random_tables_have_one_digest_in_five_engines(
    tmp_path: Path, postgres: Postgres, secret: str
) -> None:
    """CSV, Parquet, SQLite, DuckDB and PostgreSQL; with persons in every second table."""
    del secret
    for seed in range(N_TABLES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        rows = random_rows(seed, 1 + seed * 7 % 60)
        postgres.fill("visits", rows)
        kinds = [
            as_csv(folder / "rows.csv", rows),
            as_parquet(folder / "rows.parquet", rows),
            as_sqlite(folder / "rows.sqlite", rows),
            as_duckdb(folder / "rows.duckdb", rows),
            Address(postgres.address, table="public.visits"),
        ]
        person = PERSON if seed % 2 else None
        found = [snapshot_of(a, DOMAIN, folder=folder, person=person) for a in kinds]
        assert len({s.fingerprint for s in found}) == 1, seed
        assert len({s.content.records for s in found}) == 1, seed


def test_adbc_and_s3_give_the_same_digest(
    tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S3_SECRET", SECRET)
    rows = random_rows(3, 500)
    csv = as_csv(tmp_path / "rows.csv", rows)
    as_folder(tmp_path / "folder", rows)
    bucket.put("rows.csv", csv.path)
    bucket.put("rows.parquet", as_parquet(tmp_path / "rows.parquet", rows).path)
    for path in (tmp_path / "folder").rglob("*.parquet"):
        bucket.put(f"visits/{path.relative_to(tmp_path / 'folder')}", path)
    as_sqlite(tmp_path / "rows.sqlite", rows)
    kinds = [
        csv,
        adbc_of(tmp_path / "rows.sqlite"),
        *(Address(bucket.address(name)) for name in ("rows.csv", "rows.parquet", "visits")),
    ]
    found = [snapshot_of(a, DOMAIN, folder=tmp_path, person=PERSON) for a in kinds]
    assert [s.fingerprint for s in found] == [found[0].fingerprint] * len(kinds)
    assert not any(p.name.startswith("tmp") for p in tmp_path.iterdir())


def test_what_is_written_while_it_is_read_is_not_seen(
    tmp_path: Path, postgres: Postgres, secret: str
) -> None:
    """One moment: the rows that another commits between the look at the columns and the read."""
    del secret
    rows = random_rows(4, 50)
    postgres.fill("visits", rows)
    expected = snapshot_of(as_csv(tmp_path / "rows.csv", rows), DOMAIN, folder=tmp_path)
    with open_source(Address(postgres.address, table="visits"), folder=tmp_path) as source:
        postgres.execute("DELETE FROM visits WHERE age > 10")
        names = [column.name for column in source.columns]
        assert sum(b.num_rows for b in source.batches(names, None)) == 50
    after = snapshot_of(Address(postgres.address, table="visits"), DOMAIN, folder=tmp_path)
    assert after.fingerprint != expected.fingerprint


def test_types_that_arrow_does_not_know_are_read_as_texts(
    tmp_path: Path, postgres: Postgres, secret: str
) -> None:
    """Infinite dates, times with a zone, exact numbers, enumerations, identifiers."""
    del secret
    postgres.execute(
        "DROP TABLE IF EXISTS odd",
        "DROP TYPE IF EXISTS sexes",
        "CREATE TYPE sexes AS ENUM ('Female', 'Male')",
        "CREATE TABLE odd (age numeric(8, 2), sex sexes, dose real, day timestamptz, "
        "insured boolean, id uuid DEFAULT gen_random_uuid())",
        "INSERT INTO odd VALUES (20.50, 'Male', 0.25, '2024-03-11 00:30+01', true), "
        "(99999, 'Female', 'NaN', 'infinity', false), "
        "('NaN', 'Female', 0.5, '2024-03-11 00:30-01', NULL)",
        "GRANT SELECT ON odd TO reader",
    )
    found = snapshot_of(Address(postgres.address, table="odd"), DOMAIN, folder=tmp_path)
    rows = [
        (20.5, "Male", 0.25, dt.date(2024, 3, 10), True, "", ""),
        (99999, "Female", None, None, False, "", ""),
    ]
    expected = snapshot_of(as_csv(tmp_path / "rows.csv", rows), DOMAIN, folder=tmp_path)
    assert found.fingerprint == expected.fingerprint


@pytest.mark.parametrize("kind", ["postgresql", "duckdb", "parquet", "sqlite"])
def test_an_append_reads_only_the_days_of_its_periods(
    tmp_path: Path,
    postgres: Postgres,
    secret: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Where the column is of a date type; the records are the same either way."""
    del secret
    rows = random_rows(5, 3000)
    postgres.fill("visits", rows)
    address = {
        "postgresql": lambda: Address(postgres.address, table="visits"),
        "duckdb": lambda: as_duckdb(tmp_path / "rows.duckdb", rows),
        "parquet": lambda: as_folder(tmp_path / "folder", rows),
        "sqlite": lambda: as_sqlite(tmp_path / "rows.sqlite", rows),
    }[kind]()
    wanted = WantedPeriods(3, 2, 4)
    inside = [r for r in rows if r[3] and dt.date(2024, 3, 18) <= r[3] < dt.date(2024, 4, 1)]
    options = {"key": KEY, "folder": tmp_path, "periods": wanted}
    found = read_records(address, DOMAIN, **options)  # type: ignore[arg-type]
    expected = read_records(
        as_csv(tmp_path / "rows.csv", inside),
        DOMAIN,
        key=KEY,
        folder=tmp_path,
    )
    assert found.content.records == expected.content.records
    assert set(found.codes[3].tolist()) == {2, 3}
    n_margin = sum(
        r[3] is not None and dt.date(2024, 3, 17) <= r[3] < dt.date(2024, 4, 2) for r in rows
    )
    assert found.tally.n_rows == (len(rows) if kind == "sqlite" else n_margin)
    assert opening.open_source is open_source


CLINIC = (
    "DROP TABLE IF EXISTS drug; DROP TABLE IF EXISTS visit; DROP TABLE IF EXISTS person",
    "CREATE TABLE person (person_id int PRIMARY KEY, birth_year int, sex text)",
    "CREATE TABLE visit (visit_id int PRIMARY KEY, person_id int, visit_date date, ward text)",
    "CREATE TABLE drug (drug_id int PRIMARY KEY, visit_id int, atc text)",
    "INSERT INTO person SELECT i, 1940 + i % 60, CASE i % 2 WHEN 0 THEN 'F' ELSE 'M' END "
    "FROM generate_series(1, 100) i",
    "INSERT INTO visit SELECT i, 1 + i % 100, DATE '2024-03-04' + i % 20, "
    "CASE i % 3 WHEN 0 THEN 'surgery' ELSE 'medicine' END FROM generate_series(1, 700) i",
    "INSERT INTO drug SELECT i, 1 + i % 700, CASE i % 4 WHEN 0 THEN 'N02BE01' ELSE 'A' END "
    "FROM generate_series(1, 1500) i",
    "GRANT SELECT ON person, visit, drug TO reader",
)
"""The shape that hospitals use: who, when and where, and what was given."""


def test_a_view_that_joins_three_tables_keeps_k_rows_of_each_person(
    tmp_path: Path, postgres: Postgres, secret: str
) -> None:
    """The example of docs/sources.md: the bound holds for the rows of the view."""
    del secret
    from tests.worker.sources.example import DOMAIN as VISITS
    from tests.worker.sources.example import QUERY

    for statement in CLINIC:
        postgres.execute(*statement.split("; "))
    view = Address(postgres.address, query=QUERY)
    whole = snapshot_of(view, VISITS, folder=tmp_path)
    assert len(whole.table.codes[0]) == 700
    bound = snapshot_of(view, VISITS, folder=tmp_path, person=PersonRule("person_id", 3))
    assert len(bound.table.codes[0]) == 100 * 3
    postgres.execute("DELETE FROM person WHERE person_id = 17")
    without = snapshot_of(view, VISITS, folder=tmp_path, person=PersonRule("person_id", 3))
    # One person less takes that person's rows away, and no row of anybody else.
    assert len(without.table.codes[0]) == 99 * 3
    n_cells = VISITS.n_cells
    cells = [_cells(s.table.codes, VISITS.sizes, n_cells) for s in (bound, without)]
    assert all(one >= other for one, other in zip(*cells, strict=True))


def _cells(codes: object, sizes: tuple[int, ...], n_cells: int) -> list[int]:
    import numpy as np

    places = np.ravel_multi_index(tuple(np.asarray(c, dtype=np.int64) for c in codes), sizes)  # type: ignore[attr-defined]
    return [int(n) for n in np.bincount(places, minlength=n_cells)]
