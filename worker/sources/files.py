"""CSV and TSV files, also compressed, through DuckDB: every column as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from qserver.errors import PrivateDataError
from worker.constants import WORKER
from worker.sources.source import Column, Days, distinct, no_values_in_errors

_ENDINGS = {".csv": ",;|\t", ".tsv": "\t"}
"""What may stand between the columns; of several the one that the header has most of."""
_PACKED = {".gz": "gzip", ".zst": "zstd"}
# Told and not guessed: a guess from the first rows takes a quote that comes late as a plain letter,
# and one from all rows reads the file twice, with the whole of it in memory.
_DIALECT = """quote = '"', escape = '"', comment = '', skip = 0"""
_LINE = re.compile(r"Line: ([0-9]+)")


class CsvFile:
    """One file with a header line.

    Args:
        path: what is read.
        name: what its ending is taken from, and how messages call it.
    """

    def __init__(self, path: Path, name: str, connection: duckdb.DuckDBPyConnection) -> None:
        self.file: Path | None = path
        self._path, self._name, self._connection = path, name, connection
        suffixes = [s.lower() for s in Path(name).suffixes]
        self._packed = _PACKED.get(suffixes[-1]) if suffixes else None
        ending = [s for s in suffixes if s not in _PACKED][-1:]
        if not ending or ending[0] not in _ENDINGS:
            raise PrivateDataError(
                f"{name} must end in .csv, .tsv (also .gz or .zst) or .parquet, or be a folder of "
                ".parquet files."
            )
        self._delimiter = self._most_of(_ENDINGS[ending[0]])
        self.columns = self._header()

    def n_rows(self) -> int | None:
        """By the length of the first lines; None for a packed file."""
        if self._packed:
            return None
        with self._path.open("rb") as file:
            head = file.read(WORKER.csv_head_bytes)
        n_lines = head.count(b"\n")
        return None if not n_lines else int(self._path.stat().st_size * n_lines / len(head))

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows, in the order of the file. Dates are texts here, so every row is read."""
        del days
        places = {column.name: i for i, column in enumerate(self.columns)}
        before = self._path.stat()
        with no_values_in_errors(self._name, _words):
            # By place: DuckDB renames columns whose names differ in case alone.
            columns = ", ".join(f"#{places[name] + 1}" for name in names)
            sql = f"SELECT {columns} FROM {self._sql(header=True)}"  # noqa: S608
            reader = self._connection.sql(sql).to_arrow_reader(WORKER.batch_records)
        while True:
            with no_values_in_errors(self._name, _words):
                batch = next(reader, None)
            if batch is None:
                break
            yield pa.RecordBatch.from_arrays(batch.columns, names=list(names))
        after = self._path.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise PrivateDataError(f"{self._name} was changed while it was read. Read it again.")

    def _most_of(self, marks: str) -> str:
        with no_values_in_errors(self._name, _words), self._path.open("rb") as file:
            packed = pa.input_stream(file, compression=self._packed)
            line = packed.read(WORKER.csv_line_bytes).partition(b"\n")[0]
        return max(marks, key=lambda mark: line.count(mark.encode()))

    def _header(self) -> tuple[Column, ...]:
        """The first line, as it is written: read with it as a header, twice one name is renamed."""
        with no_values_in_errors(self._name, _words):
            sql = f"SELECT * FROM {self._sql(header=False)} LIMIT 1"  # noqa: S608
            rows = self._connection.sql(sql).fetchall()
        if not rows:
            raise PrivateDataError(f"{self._name} is empty: it has no header line.")
        return distinct([Column(str(name or "").strip()) for name in rows[0]])

    def _sql(self, *, header: bool) -> str:
        packed = f", compression = '{self._packed}'" if self._packed else ""
        path = "'" + str(self._path).replace("'", "''") + "'"
        return (
            f"read_csv({path}, header = {str(header).lower()}, all_varchar = true, {_DIALECT}, "
            f"delim = '{self._delimiter}', buffer_size = {WORKER.csv_buffer_bytes}{packed})"
        )


@contextmanager
def open_csv(path: Path, *, name: str = "") -> Iterator[CsvFile]:
    """An open file.

    Args:
        name: how it is called, where the path is that of a copy.

    Raises:
        PrivateDataError: it cannot be read, or has a column twice.
    """
    if not path.is_file():
        raise PrivateDataError(f"{path} is not a file.")
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        # Only this one file can be opened, and nothing can be loaded or fetched.
        # Absolute and not resolved: a file without a name is found by its descriptor alone.
        quoted = "'" + str(path.absolute()).replace("'", "''") + "'"
        connection.execute(f"SET allowed_paths = [{quoted}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET preserve_insertion_order = true")
        # Else the whole file stays in memory.
        connection.execute("SET enable_external_file_cache = false")
        yield CsvFile(path.absolute(), name or path.name, connection)


def _words(error: Exception) -> str:
    """How reading failed; with the line where DuckDB tells it."""
    text = str(error)
    found = _LINE.search(text)
    line = f" at line {int(found[1]):,}" if found else ""
    if "nvalid unicode" in text or "not utf-8 encoded" in text:
        return (
            f"holds bytes that are no UTF-8{line}. Convert it, for example with "
            "`iconv -f latin1 -t utf-8`."
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return f"cannot be read{line}: there is not enough memory."
    if isinstance(error, duckdb.IOException):
        return f"cannot be read to its end{line}: it is cut off, damaged or not allowed to be read."
    return f"cannot be read{line}: it has another number of columns there, or an open quote."
