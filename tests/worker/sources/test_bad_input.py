"""What cannot be read: one line without any value, exit code 1, and nothing registered."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qserver.config import Settings
from qserver.query.domain_file import domain_to_document
from qserver.storage.store import Store
from tests.sweeps import share
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
from worker.coding.coder import Coder

VALUE = "sekretvalue"
ROWS = [(30, VALUE, 0.5, None, True, VALUE, VALUE), *random_rows(1, 40)]
Out = pytest.CaptureFixture[str]


def latin1(folder: Path) -> list[str]:
    path = as_csv(folder / "rows.csv", ROWS).path
    path.write_bytes(path.read_bytes().replace(VALUE.encode(), f"{VALUE}ä".encode("latin-1"), 1))
    return ["--data", str(path)]


def text_in_parquet(folder: Path) -> list[str]:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    )
    columns = {a.name: bad for a in DOMAIN.attributes}
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    return ["--data", str(folder / "rows.parquet")]


def text_in_sqlite(folder: Path) -> list[str]:
    as_sqlite(folder / "rows.sqlite", ROWS)
    with sqlite3.connect(folder / "rows.sqlite") as connection:
        connection.execute("UPDATE visits SET sex = CAST(x'fffe' AS TEXT) WHERE rowid = 20")
    connection.close()
    return ["--source", f"sqlite:///{folder}/rows.sqlite", "--table", "visits"]


def cut_off(folder: Path) -> list[str]:
    path = folder / "rows.csv.gz"
    text = gzip.compress(as_csv(folder / "rows.csv", ROWS * 200).path.read_bytes())
    path.write_bytes(text[: len(text) // 2])
    return ["--data", str(path)]


def cut_parquet(folder: Path) -> list[str]:
    as_folder(folder / "all", ROWS)
    path = folder / "all" / "more" / "b.parquet"
    path.write_bytes(path.read_bytes()[:-7])
    return ["--data", str(folder / "all")]


def other_schema(folder: Path) -> list[str]:
    as_folder(folder / "all", ROWS)
    pq.write_table(pa.table({"age": ["old"]}), folder / "all" / "z.parquet")
    return ["--data", str(folder / "all")]


def csv_folder(change: Callable[[Path], object]) -> Callable[[Path], list[str]]:
    """A folder of CSV files, of which `change` spoils one."""

    def made(folder: Path) -> list[str]:
        as_csv_folder(folder / "all", ROWS)
        change(folder / "all")
        return ["--data", str(folder / "all")]

    return made


def add_row(folder: Path) -> None:
    path = folder / "more" / "b.tsv"
    path.write_text(path.read_text() + f"{VALUE}\t{VALUE}\n")


def ragged(folder: Path) -> list[str]:
    path = as_csv(folder / "rows.csv", ROWS).path
    path.write_text(path.read_text() + f"{VALUE},{VALUE}\n")
    return ["--data", str(path)]


def twice(folder: Path) -> list[str]:
    path = as_csv(folder / "rows.csv", ROWS).path
    path.write_text(path.read_text().replace("person", "age", 1))
    return ["--data", str(path)]


def twice_in(kind: str) -> Callable[[Path], list[str]]:
    def made(folder: Path) -> list[str]:
        {"sqlite": as_sqlite, "duckdb": as_duckdb}[kind](folder / f"rows.{kind}", ROWS)
        query = "SELECT *, age + 1 AS age FROM visits"
        return ["--source", f"{kind}:///{folder}/rows.{kind}", "--query", query]

    return made


def query_on(kind: str, query: str) -> Callable[[Path], list[str]]:
    def made(folder: Path) -> list[str]:
        {"sqlite": as_sqlite, "duckdb": as_duckdb}[kind](folder / f"rows.{kind}", ROWS)
        return ["--source", f"{kind}:///{folder}/rows.{kind}", "--query", query]

    return made


def no_column(folder: Path) -> list[str]:
    path = as_csv(folder / "rows.csv", ROWS).path
    path.write_text(path.read_text().replace("insured", "paid", 1))
    return ["--data", str(path)]


def written(name: str, text: str) -> Callable[[Path], list[str]]:
    def made(folder: Path) -> list[str]:
        (folder / name).write_text(text)
        return ["--data", str(folder / name)]

    return made


def no_database(folder: Path) -> list[str]:
    (folder / "rows.db").write_text(VALUE * 100)
    return ["--source", f"sqlite:///{folder}/rows.db", "--table", "visits"]


OVERFLOW = "SELECT 9223372036854775807 + length(sex) AS age, * EXCLUDE age FROM visits"
CAST_OVERFLOW = "SELECT CAST(sex AS INTEGER) AS age, sex, dose, day, insured FROM visits"
BAD: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "latin-1": (latin1, "no UTF-8"),
    "text in parquet": (text_in_parquet, "no UTF-8"),
    "text in sqlite": (text_in_sqlite, "no UTF-8"),
    "cut off": (cut_off, "cannot be read"),
    "cut parquet": (cut_parquet, "damaged"),
    "other schema": (other_schema, "has another type for column age"),
    "ragged": (ragged, "at line 43: it has another number of columns"),
    "twice": (twice, "more than one column age"),
    "twice in sqlite": (twice_in("sqlite"), "more than one column age"),
    "twice in duckdb": (twice_in("duckdb"), "more than one column age"),
    "no column": (no_column, "lacks insured"),
    "no rows": (written("rows.csv", "age,sex,dose,day,insured\n"), "no rows"),
    "no rows of sqlite": (query_on("sqlite", "SELECT * FROM visits WHERE age > 999"), "no rows"),
    "no rows of duckdb": (query_on("duckdb", "SELECT * FROM visits WHERE age > 999"), "no rows"),
    "no header": (written("rows.csv", ""), "no header line"),
    "no such table": (query_on("duckdb", "SELECT * FROM nothing"), "nothing"),
    "no such table of sqlite": (query_on("sqlite", "SELECT * FROM none"), "no such table"),
    "no database": (no_database, "cannot be read"),
    "no sql": (query_on("sqlite", "SELEC age"), "does not take the table or query"),
    "overflow": (query_on("duckdb", OVERFLOW), "cannot be read to its end"),
    "a value that does not fit": (query_on("duckdb", CAST_OVERFLOW), "cannot be read to its end"),
    "not there": (lambda folder: ["--data", str(folder / "none.csv")], "not a file"),
    "no folder": (lambda folder: ["--data", str(folder)], "no .parquet, .csv or .tsv file"),
    "ragged in a folder": (csv_folder(add_row), "b.tsv (file 2 of 3) cannot be read at line 15"),
    "other schema in a folder": (
        csv_folder(lambda folder: (folder / "z.csv").write_text(f"age,sex\n1,{VALUE}\n")),
        "file 4 of 4 lacks column dose",
    ),
    "twice by a folder": (
        csv_folder(
            lambda folder: (
                (folder / "more").rename(folder / "age=3") and (folder / "a.csv").unlink()
            )
        ),
        "more than one column age",
    ),
    "both kinds": (
        csv_folder(lambda folder: as_parquet(folder / "d.parquet", ROWS)),
        "Keep one kind in a folder",
    ),
    "an empty file in a folder": (
        csv_folder(lambda folder: (folder / "z.csv").write_text("")),
        "z.csv (file 4 of 4) is empty",
    ),
}


def attach(folder: Path, state: Path, url: str, source: list[str]) -> int:
    domain = state.parent / "domain.json"
    domain.write_text(json.dumps(domain_to_document(DOMAIN)))
    call = ["attach", "clinic", *source, "--domain", str(domain), "--limit", "1"]
    call += ["--records-per-person", "1"]
    return main([*call, "--state", str(state), "--redis-url", url])


@pytest.mark.parametrize("name", BAD)
def test_one_line_without_a_value_and_nothing_is_registered(
    tmp_path: Path, store_url: str, capfd: Out, name: str
) -> None:
    make, told = BAD[name]
    folder, state = tmp_path / "data", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    assert attach(folder, state, store_url, make(folder)) == 1
    said = capfd.readouterr()
    lines = [x for x in said.err.splitlines() if not x.startswith("reading and converting")]
    assert len(lines) == 1, said.err
    assert told in lines[0]
    assert VALUE not in said.err + said.out
    assert nothing_is_left(state)


def nothing_is_left(state: Path) -> bool:
    worker = state / "worker"
    return (
        not (worker / "datasets.json").exists()
        and list((worker / "journals").iterdir()) == []
        and list((worker / "seals").iterdir()) == []
    )


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, store_url: str, capfd: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, data = tmp_path / "state", tmp_path / "data"
    state.mkdir()
    data.mkdir()
    path = as_csv(data / "rows.csv", ROWS).path
    coded = Coder.of

    def meanwhile(self: Coder, batch: pa.RecordBatch) -> object:
        path.write_text(path.read_text() + "1,Male,0.5,2024-03-04,true,p,x\n")
        return coded(self, batch)

    monkeypatch.setattr(Coder, "of", meanwhile)
    assert attach(data, state, store_url, ["--data", str(path)]) == 1
    assert "was changed while it was read" in capfd.readouterr().err
    assert nothing_is_left(state)


@pytest.mark.slow
@pytest.mark.parametrize("number", share([signal.SIGKILL, signal.SIGINT, signal.SIGTERM], 1))
def test_a_stop_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, store_url: str, number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    """Once codes are in the file that has no name: it is seen among the open files."""
    state = tmp_path / "state"
    state.mkdir()
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute(
            "CREATE VIEW visits AS SELECT i % 100 AS age, 'Male' AS sex, 0.5 AS dose, "
            "DATE '2024-03-04' AS day, true AS insured FROM range(50000000) t(i)"
        )
    (tmp_path / "domain.json").write_text(json.dumps(domain_to_document(DOMAIN)))
    call = ["attach", "clinic", "--source", f"duckdb:///{tmp_path}/rows.duckdb", "--table"]
    call += ["visits", "--domain", str(tmp_path / "domain.json"), "--limit", "1"]
    call += ["--records-per-person", "1"]
    # Whoever started the tests may have had interrupts ignored, which a child inherits.
    if number != signal.SIGKILL:
        inherited = signal.signal(number, signal.SIG_DFL)
        request.addfinalizer(lambda: signal.signal(number, inherited))
    running = subprocess.Popen(
        [sys.executable, "-m", "worker", *call, "--state", str(state), "--redis-url", store_url],
        stderr=subprocess.DEVNULL,
    )
    try:
        while not spooled_bytes(running.pid, state):
            assert running.poll() is None
            time.sleep(0.02)
        os.kill(running.pid, number)
        assert running.wait() != 0
    finally:
        running.kill()
        running.wait()
    assert nothing_is_left(state)
    assert sorted(p.name for p in (state / "worker").iterdir() if p.is_file()) == [
        "fingerprint.key"
    ]
    assert Store.open(Settings(redis_url=store_url, state_dir=state)).datasets() == {}


def spooled_bytes(pid: int, state: Path) -> int:
    """Bytes in files without a name that a process has in the folder of the seals."""
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if str(link.readlink()).startswith(str(state / "worker" / "seals")):
                found += link.stat().st_size
        except OSError:
            continue  # closed meanwhile
    return found
