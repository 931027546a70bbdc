"""A file is read once, whatever its name holds, and every record that is in it."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qserver.errors import ConfigError, PrivateDataError
from worker.private.spark_place import SparkPlace
from worker.sources.address import Address
from worker.sources.files import CsvFile
from worker.sources.kinds import open_source

CASES = Path(__file__).parents[2] / "data" / "files"
NAMES = [
    "v1",
    "v[1]",
    "v*",
    "v?",
    "{v1,v2}",
    "v'1",
    'v"1',
    "v 1",
    "v%5B1%5D",
    "v[!1]",
    "~v",
    "v\\1",
]


def cells(path: Path, *, table: str = "") -> Counter[str]:
    """How often each text of column `a` is read."""
    text = f"duckdb:///{path}" if table else str(path)
    with open_source(Address(text, table=table), folder=path.parent) as source:
        return Counter(
            x for batch in source.batches(["a"], None) for x in batch.column(0).to_pylist()
        )


def write(path: Path, text: str) -> None:
    quoted = text.replace('"', '""')
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"a": [text]}), path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(f'a,n\n"{quoted}",1\n'.encode()))
    else:
        path.write_text(f'a,n\n"{quoted}",1\n')


def test_the_folder_of_the_case_is_read_file_by_file() -> None:
    assert cells(CASES / "folder-brackets") == {"x": 1, "y": 2}


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
def test_every_file_of_a_folder_is_read_once_whatever_its_name(tmp_path: Path, ending: str) -> None:
    folder = tmp_path / "all [of] them*"
    folder.mkdir()
    for name in NAMES:
        write(folder / f"{name}{ending}", name)
    (folder / "k [1]").mkdir()
    write(folder / "k [1]" / f"more?{ending}", "more")
    assert cells(folder) == Counter([*NAMES, "more"])
    for name in NAMES[:4]:
        assert cells(folder / f"{name}{ending}") == {name: 1}


def test_a_file_of_duckdb_is_the_one_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some beginnings of names mean other databases to it."""
    with duckdb.connect(str(tmp_path / "plain")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'x' AS a")
    monkeypatch.chdir(tmp_path)
    for name in ("v[1]*?.duckdb", ":memory:t", "md:t"):
        shutil.copy(tmp_path / "plain", tmp_path / name)
        assert cells(Path(name), table="t") == {"x": 1}


def test_a_record_that_the_engine_leaves_out_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,n\nx,1\ny,2\n")
    sql = CsvFile._sql
    monkeypatch.setattr(CsvFile, "_sql", lambda self, n: f"(SELECT * FROM {sql(self, n)} LIMIT 1)")
    with pytest.raises(PrivateDataError, match="holds 2 records, and 1 were read"):
        cells(path)


@pytest.mark.parametrize(
    "text",
    [
        "a,n\n",
        'a,n\n"x\ny",1\n\nz,2',
        'a,n\nx"z,1\n"y""q",2\n',
        'a,n\nx, "1\n2"\n',
        "a\nx\n\ny\n",
        "a\nx\n\n",
        "\na\nx\n\n\n",
        'a\n""\n',
    ],
)
def test_records_are_counted_as_they_are_read(tmp_path: Path, text: str) -> None:
    """Odd quotes, empty lines, and a header of two lines are no fault."""
    path = tmp_path / "rows.csv"
    path.write_text(text, newline="")
    with duckdb.connect() as connection:
        sql = f"FROM read_csv('{path}', all_varchar=true, header=true, delim=',', quote='\"')"
        expected = len(connection.sql(sql).fetchall())
    assert cells(path).total() == expected


def test_a_folder_of_codes_on_spark_is_no_pattern() -> None:
    with pytest.raises(ConfigError, match="which Spark takes for a pattern"):
        SparkPlace("s3a://b/codes[1]", 1.0)
