"""What it takes to read a source: `python -m tests.benchmarks.reading --records 10000000`.

Each kind is read in a process of its own, which imports the worker's command line first, as attach
does. Of the time the processor's own is told as well, as others may use the machine. With `--one`
it compares the times of counts on two seals that differ by one record.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path

import duckdb

from qserver.query.calendar import Periods
from qserver.query.class_grid import product_partition
from qserver.query.domain import Attribute, Domain
from tests.worker.codes import codes_of
from worker.private.record_tables import RecordTable
from worker.private.seal_file import open_seal
from worker.private.snapshot import Snapshot, read_snapshot
from worker.private.truncation import PersonRule
from worker.sources.address import Address

KINDS = ("csv", "parquet", "duckdb", "sqlite")
SERVER = "postgresql"
DRUGS = tuple(f"drug {i}" for i in range(50))
DOMAIN = Domain(
    (
        Attribute("age", "integer", edges=tuple(map(Fraction, range(0, 101, 5))), outside="clamp"),
        Attribute("sex", "labels", ("Female", "Male")),
        Attribute("region", "labels", tuple(f"region {i}" for i in range(16))),
        Attribute("day", "period", periods=Periods("week", "2024-W01", 60)),
        Attribute("dose", "real", edges=tuple(map(Fraction, range(0, 1001, 10))), outside="other"),
        Attribute("drug", "labels", DRUGS, outside="other"),
        Attribute("grade", "integer", edges=tuple(map(Fraction, range(6)))),
    )
)
_ROWS = """SELECT (hash(i) % 100)::INTEGER AS age,
CASE hash(i + 1) % 2 WHEN 0 THEN 'Female' ELSE 'Male' END AS sex,
'region ' || (hash(i * 3 + 2) % 16) AS region,
DATE '2024-01-01' + (hash(i * 5 + 3) % 364)::INTEGER AS day,
((hash(i * 7 + 4) % 100000) / 100.0)::DOUBLE AS dose,
'drug ' || (hash(i * 11 + 5) % 50) AS drug,
(hash(i * 13 + 6) % 5)::INTEGER AS grade,
i // 10 AS person FROM range({n}) t(i)"""


def made(kind: str, n: int, folder: Path) -> Address:
    """A source of n records of seven columns and a person, ten records each."""
    path, rows = folder / f"rows.{kind}", _ROWS.format(n=n)
    if kind == "sqlite":
        with duckdb.connect() as connection, closing(sqlite3.connect(path)) as target:
            target.execute("CREATE TABLE visits (age, sex, region, day, dose, drug, grade, person)")
            batches = connection.execute(f"SELECT * REPLACE (day::VARCHAR AS day) FROM ({rows})")
            while found := batches.fetchmany(100_000):
                target.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?, ?, ?)", found)
            target.commit()
    elif kind == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE visits AS {rows}")
    else:
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({rows}) TO '{path}'")
    is_table = kind in ("sqlite", "duckdb")
    return Address(f"{kind}:///{path}" if is_table else str(path), "visits" if is_table else "")


@contextmanager
def in_postgres(n: int, folder: Path) -> Iterator[Address]:
    """The same in a PostgreSQL server of its own, by a reader's address; gone at the end."""
    # Loaded only here: the processes that are measured import what attach imports alone.
    import adbc_driver_postgresql.dbapi
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tests.worker.sources.engines import PASSWORD, postgres_server

    path = made("parquet", n, folder).path
    with postgres_server() as server:
        with (
            adbc_driver_postgresql.dbapi.connect(server.uri, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            file = pq.ParquetFile(path)
            batches = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
            cursor.adbc_ingest("visits", batches, mode="create")
        server.execute("GRANT SELECT ON visits TO reader", "ANALYZE visits")
        path.unlink()
        os.environ["PG_SECRET"] = PASSWORD
        yield Address(server.address, "visits")


@contextmanager
def source(kind: str, n: int, folder: Path) -> Iterator[Address]:
    """A source of n records; gone at the end."""
    if kind == SERVER:
        with in_postgres(n, folder) as address:
            yield address
    else:
        address = made(kind, n, folder)
        yield address
        address.path.unlink()


def read(address: Address, folder: Path, *, most: int | None = None) -> Snapshot:
    """As attach reads it."""
    person = None if most is None else PersonRule("person", most)
    return read_snapshot(address, DOMAIN, key=b"k" * 32, folder=folder, person=person)


def measured(address: Address, folder: Path, *, most: int | None = None) -> dict[str, object]:
    """One read in a process of its own: seconds, peak of resident memory in MB, fingerprint."""
    call = [sys.executable, "-m", "tests.benchmarks.reading", "--read", address.text]
    call += ["--table", address.table, "--folder", str(folder)]
    if most is not None:
        call += ["--most", str(most)]
    done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _measure(address: Address, folder: Path, most: int | None) -> None:
    import worker.cli  # noqa: F401 - the memory of what attach imports counts

    begun = time.perf_counter()
    snapshot = read(address, folder, most=most)
    taken, used = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "records": len(codes_of(snapshot)[0]),
        "seconds": round(taken, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": used.ru_maxrss // 1024,
        "fingerprint": snapshot.fingerprint[:16],
    }
    print(json.dumps(found))


def one_record(n: int, folder: Path, *, n_counts: int) -> dict[str, float]:
    """Median milliseconds of counts on two seals that differ by one record, taken in turns."""
    tables = []
    for extra in (0, 1):
        (folder / str(extra)).mkdir()
        snapshot = read(made("parquet", n + extra, folder / str(extra)), folder)
        assert snapshot.seal is not None
        path = folder / f"{extra}.seal"
        snapshot.seal.keep_as(path)
        tables.append(open_seal(path, DOMAIN))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(n_counts):
        for found, table in zip(times, tables, strict=True):
            found.append(_milliseconds(table))
    without, with_it = (statistics.median(found) for found in times)
    spread = statistics.stdev(times[0])
    return {"without": without, "with": with_it, "spread of one count": spread}


def _milliseconds(table: RecordTable) -> float:
    begun = time.perf_counter()
    table.counts(product_partition(DOMAIN.sizes, {2: list(range(16))}))
    return 1000 * (time.perf_counter() - begun)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=(*KINDS, SERVER))
    parser.add_argument("--most", type=int, help="keep so many records of each person")
    parser.add_argument("--one", type=int, metavar="COUNTS", help="time counts in place of reads")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--table", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="for the files; default: a temporary one")
    options = parser.parse_args(argv)
    if options.read:
        _measure(Address(options.read, options.table), options.folder, options.most)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        if options.one:
            print(one_record(options.records, Path(name), n_counts=options.one))
            return
        for kind in options.kinds:
            with source(kind, options.records, Path(name)) as address:
                print(kind, measured(address, Path(name), most=options.most), flush=True)


if __name__ == "__main__":
    main()
