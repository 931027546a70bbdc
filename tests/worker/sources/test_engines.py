"""Every engine: one fingerprint for the same records, one moment, and only the days asked for."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import redis

from qserver.query.domain_file import domain_to_document
from tests.deployment import LOG
from tests.sweeps import n_of
from tests.worker.codes import codes_of
from tests.worker.private.reading import KEY, snapshot_of
from tests.worker.sources.bucket import SECRET, Bucket
from tests.worker.sources.engines import Postgres
from tests.worker.sources.example import DOMAIN as VISITS
from tests.worker.sources.example import QUERY
from tests.worker.sources.tables import (
    DOMAIN,
    as_csv,
    as_csv_folder,
    as_duckdb,
    as_folder,
    as_parquet,
    as_sqlite,
    random_rows,
)
from worker.cli import main
from worker.coding.coder import Coder, WantedPeriods
from worker.main_loop import AttachedData
from worker.private.registry import Registry
from worker.private.snapshot import read_records
from worker.private.truncation import PeriodRule, PersonRule
from worker.sources.address import Address
from worker.sources.kinds import open_source

pytestmark = pytest.mark.engines
PERSON = PersonRule("person", 4, PeriodRule(3, 2, 4))
N_TABLES = n_of(200, share=50)


def adbc_of(path: Path) -> Address:
    """An SQLite file through its ADBC driver."""
    uri = f"uri={path}"
    return Address("adbc:sqlite", query="SELECT * FROM visits", options=(uri,))


def test_random_tables_have_one_digest_in_five_engines(
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
    as_csv_folder(tmp_path / "texts", rows)
    bucket.put("rows.csv", csv.path)
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(csv.path.read_bytes()))
    bucket.put("rows.csv.gz", tmp_path / "rows.csv.gz")
    bucket.put("rows.parquet", as_parquet(tmp_path / "rows.parquet", rows).path)
    for path in (tmp_path / "folder").rglob("*.parquet"):
        bucket.put(f"visits/{path.relative_to(tmp_path / 'folder')}", path)
    for path in (p for p in (tmp_path / "texts").rglob("*") if p.is_file()):
        bucket.put(f"texts/{path.relative_to(tmp_path / 'texts')}", path)
    as_sqlite(tmp_path / "rows.sqlite", rows)
    kinds = [
        csv,
        adbc_of(tmp_path / "rows.sqlite"),
        *(
            Address(bucket.address(name))
            for name in ("rows.csv", "rows.csv.gz", "rows.parquet", "visits", "texts")
        ),
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
    for statement in CLINIC:
        postgres.execute(*statement.split("; "))
    view = Address(postgres.address, query=QUERY)
    whole = snapshot_of(view, VISITS, folder=tmp_path)
    assert len(codes_of(whole)[0]) == 700
    bound = snapshot_of(view, VISITS, folder=tmp_path, person=PersonRule("person_id", 3))
    assert len(codes_of(bound)[0]) == 100 * 3
    postgres.execute("DELETE FROM person WHERE person_id = 17")
    without = snapshot_of(view, VISITS, folder=tmp_path, person=PersonRule("person_id", 3))
    # One person less takes that person's rows away, and no row of anybody else.
    assert len(codes_of(without)[0]) == 99 * 3
    n_cells = VISITS.n_cells
    cells = [_cells(codes_of(s), VISITS.sizes, n_cells) for s in (bound, without)]
    assert all(one >= other for one, other in zip(*cells, strict=True))


def _cells(codes: Sequence[Any], sizes: tuple[int, ...], n_cells: int) -> list[int]:
    places = np.ravel_multi_index(tuple(np.asarray(c, dtype=np.int64) for c in codes), sizes)
    return [int(n) for n in np.bincount(places, minlength=n_cells)]


def attach_clinic(folder: Path, url: str, *source: str) -> int:
    """The real command, in this process."""
    (folder / "domain.json").write_text(json.dumps(domain_to_document(DOMAIN)))
    call = ["attach", "clinic", *source, "--domain", str(folder / "domain.json"), "--limit", "1"]
    call += ["--records-per-person", "1"]
    return main([*call, "--state", str(folder / "state"), "--redis-url", url])


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


def nothing_is_left(state: Path) -> bool:
    worker = state / "worker"
    journals, seals = ([*(worker / name).iterdir()] for name in ("journals", "seals"))
    return not ((worker / "datasets.json").exists() or journals or seals)


BAD = {
    "wrong password": ("visits", "refuses the user or the password"),
    "no such table": ("nowhere", "has no such table"),
    "no rights": ("closed", "lets this user not read"),
    "no rows": ("nobody_here", "no rows"),
    "overflow": (
        "SELECT age * 2147483647 AS age, sex, dose, day, insured FROM visits",
        "too large",
    ),
    "half a read": ("half", "broke the read off"),
    "column twice": ("SELECT *, age AS age FROM visits", "more than one column age"),
    "no sql": ("SELEC", "does not take the query"),
    "writes": ("SELECT * FROM writing()", "may only read"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_postgres_does_not_give_is_one_line_without_a_value(
    postgres: Postgres,
    secret: str,
    state: Path,
    store_url: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    rows = [(30, "sekretvalue", 0.5, None, True, "sekretvalue", ""), *random_rows(1, 3000)]
    postgres.fill("visits", rows)
    postgres.fill("closed", rows)
    postgres.execute(
        "REVOKE ALL ON closed FROM reader",
        "CREATE OR REPLACE VIEW nobody_here AS SELECT * FROM visits WHERE false",
        "CREATE OR REPLACE VIEW half AS SELECT 1 / (3000 - row_number() OVER ()) AS age, sex, "
        "dose, day, insured FROM visits",
        "CREATE OR REPLACE FUNCTION writing() RETURNS SETOF visits LANGUAGE plpgsql AS "
        "$$ BEGIN CREATE TABLE leak (a int); RETURN; END $$",
        "GRANT SELECT ON nobody_here, half TO reader",
    )
    if name == "wrong password":
        monkeypatch.setenv("PG_SECRET", "wrong" + secret)
    what, told = BAD[name]
    how = "--query" if " " in what or what == "SELEC" else "--table"
    assert attach_clinic(state.parent, store_url, "--source", postgres.address, how, what) == 1
    err = capfd.readouterr().err
    assert told in err
    assert len(err.splitlines()) == 2  # the first says what is done
    assert "sekretvalue" not in err
    assert secret not in err
    assert nothing_is_left(state)


def test_a_server_that_is_not_there_or_goes_away_is_told(
    postgres: Postgres,
    secret: str,
    state: Path,
    store_url: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nowhere = postgres.address.replace(str(postgres.port), "1")
    assert attach_clinic(state.parent, store_url, "--source", nowhere, "--table", "visits") == 1
    err = capfd.readouterr().err
    assert "cannot be reached" in err
    assert secret not in err
    postgres.execute(
        "DROP TABLE IF EXISTS many",
        "CREATE TABLE many AS SELECT i % 100 AS age, 'Male' AS sex, 0.5 AS dose, "
        "DATE '2024-03-04' AS day, true AS insured FROM generate_series(1, 2000000) i",
        "GRANT SELECT ON many TO reader",
    )
    coded, done = Coder.of, []

    def ended(self: Coder, batch: object) -> object:
        if not done:
            done.append(1)
            postgres.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'"
            )
        return coded(self, batch)

    monkeypatch.setattr(Coder, "of", ended)
    source = ("--source", postgres.address, "--table", "many")
    assert attach_clinic(state.parent, store_url, *source) == 1
    err = capfd.readouterr().err
    assert "ended the connection in the middle of the read" in err
    assert secret not in err
    assert nothing_is_left(state)


def test_the_secret_is_nowhere_but_in_memory(
    postgres: Postgres, secret: str, state: Path, store_url: str
) -> None:
    """A real attach, and a worker that starts: store, folder, output, list of processes."""
    rows = random_rows(2, 3000)
    postgres.fill("visits", rows)
    (state.parent / "domain.json").write_text(json.dumps(domain_to_document(DOMAIN)))
    call = ["attach", "clinic", "--source", postgres.address, "--table", "visits", "--limit", "1"]
    call += ["--domain", str(state.parent / "domain.json"), "--json", "--records-per-person", "1"]
    command = [sys.executable, "-m", "worker", *call, "--state", str(state)]
    running = subprocess.Popen(
        [*command, "--redis-url", store_url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    # A process that was just made has not been given its command yet.
    while b"attach" not in (listed := Path(f"/proc/{running.pid}/cmdline").read_bytes()):
        assert running.poll() is None
    output = running.communicate()[0]
    assert running.returncode == 0, output
    assert b"{env:PG_SECRET}" in listed
    held = [path.read_bytes() for path in state.rglob("*") if path.is_file()]
    assert any(b"{env:PG_SECRET}" in text for text in held)
    store = redis.Redis.from_url(store_url)
    dumped = [store.dump(key) or b"" for key in store.scan_iter()]
    assert dumped
    store.close()
    for shape in (secret, quote(secret, safe=""), quote(secret), "hunter2"):
        for text in (listed, output, *held, *dumped):
            assert shape.encode() not in text
    # The source is not asked again: without the password the seal serves.
    loaded = AttachedData(Registry(state), log=LOG).load()
    assert loaded.refused == ()
    (table,) = loaded.trusted.tables.values()
    expected = snapshot_of(as_csv(state.parent / "rows.csv", rows), DOMAIN, folder=state.parent)
    assert len(table.codes[0]) == len(codes_of(expected)[0])  # type: ignore[attr-defined]
