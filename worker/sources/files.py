"""CSV and TSV files, also compressed, through DuckDB: every column as text.

DuckDB is given an open file's number and never its name, in which it would take `[`, `*` and `?`
for a pattern. What it read is counted against what another parser finds in the file.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.csv as pc

from qserver.errors import PrivateDataError
from worker.constants import WORKER
from worker.sources.source import Column, Days, listed, named, no_values_in_errors

_ENDINGS = {".csv": ",;|\t", ".tsv": "\t"}
"""What may stand between the columns; of several the one that the header has most of."""
_PACKED = {".gz": "gzip", ".zst": "zstd"}
# Told and not guessed: a guess from the first rows takes a quote that comes late as a plain letter,
# and one from all rows reads the file twice, with the whole of it in memory. And only what was told
# says at which line a file is ragged. Folders named KEY=VALUE are left to whoever reads folders.
_DIALECT = """auto_detect = false, quote = '"', escape = '"', comment = '', header = false,
hive_partitioning = false"""
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_LINE = re.compile(r"Line: ([0-9]+)")


def is_csv_name(name: str) -> bool:
    """Whether a name is that of a CSV or TSV file, perhaps compressed."""
    return _ending(name) in _ENDINGS


def _ending(name: str) -> str:
    path = PurePath(name.lower())
    return PurePath(path.stem).suffix if path.suffix in _PACKED else path.suffix


@dataclass(frozen=True)
class _Header:
    """The header of a file.

    Args:
        names: of all columns, in their order; '' for one without a name.
        n_rows, n_lines: how many rows and lines end with it; blank ones may stand before it.
    """

    names: tuple[str, ...]
    n_rows: int
    n_lines: int


class CsvFile:
    """One file with a header line.

    Args:
        path: what is read.
        name: what its ending is taken from.
        shown: how messages call it; as `name` by default.
    """

    def __init__(self, path: Path, name: str, *, shown: str = "") -> None:
        self.file: Path | None = path
        self._path, self._name = path, shown or name
        if not is_csv_name(name):
            raise PrivateDataError(
                f"{name} must end in .csv, .tsv (also .gz or .zst) or .parquet, or be a folder of "
                "such files."
            )
        self._packed = _PACKED.get(PurePath(name).suffix.lower())
        head = self._head()
        self._delimiter = max(_ENDINGS[_ending(name)], key=_unquoted_line(head).count)
        self._header = self._header_of(head)
        self.columns = named([Column(name) for name in self._header.names])

    def n_rows(self) -> int | None:
        """An estimate by the length of the first lines; None for a compressed file."""
        if self._packed:
            return None
        with self._path.open("rb") as file:
            head = file.read(WORKER.csv_head_bytes)
        n_lines = head.count(b"\n")
        return None if not n_lines else int(self._path.stat().st_size * n_lines / len(head))

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows, in the order of the file. Dates are texts here, so every row is read."""
        del days
        before, n_read = self.mark(), 0
        columns = ", ".join(f"c{self._header.names.index(name)}" for name in names)
        with ExitStack() as open_files:
            with no_values_in_errors(self._name, self._why):
                file = open_files.enter_context(self._path.open("rb"))
                connection = open_files.enter_context(_reading_alone(file.fileno()))
                sql = f"SELECT {columns} FROM {self._sql(file.fileno())}"  # noqa: S608
                reader = connection.sql(sql).to_arrow_reader(WORKER.batch_records)
            while True:
                with no_values_in_errors(self._name, self._why):
                    batch = next(reader, None)
                if batch is None:
                    break
                n_read += batch.num_rows
                yield pa.RecordBatch.from_arrays(batch.columns, names=list(names))
        if self.mark() != before:
            raise PrivateDataError(f"{self._name} was changed while it was read. Read it again.")
        with no_values_in_errors(self._name, _words):
            held = self._n_held()
            if held != n_read and (held := self._n_held_exactly()) != n_read:
                raise PrivateDataError(
                    f"{self._name} holds {held:,} records, and {n_read:,} were read. Write each "
                    'quote within quotes as "", and end all lines alike.'
                )

    def _n_held(self) -> int:
        """Arrow's number of records in the file: quick, but with its own view of odd quotes."""
        n_odd = 0

        def odd(_row: object) -> str:
            nonlocal n_odd
            n_odd += 1
            return "skip"

        names = [f"c{i}" for i in range(len(self._header.names))]
        with self._unpacked() as stream:
            try:
                reader = pc.open_csv(
                    stream,
                    pc.ReadOptions(
                        use_threads=False,
                        block_size=WORKER.csv_buffer_bytes,
                        column_names=names,
                        skip_rows=self._header.n_lines,
                    ),
                    pc.ParseOptions(
                        delimiter=self._delimiter,
                        newlines_in_values=True,
                        ignore_empty_lines=len(names) > 1,
                        invalid_row_handler=odd,
                    ),
                    pc.ConvertOptions(include_columns=["c0"], column_types={"c0": pa.binary()}),
                )
                return n_odd + sum(int(batch.num_rows) for batch in reader)
            except pa.ArrowInvalid:  # also of a file without records
                return -1

    def _n_held_exactly(self) -> int:
        """The same by a slower parser that quotes as DuckDB does."""
        with self._unpacked() as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
            rows = csv.reader(text, delimiter=self._delimiter, skipinitialspace=True)
            next(itertools.islice(rows, self._header.n_rows - 1, None))
            return sum(1 for row in rows if row or len(self._header.names) == 1)

    @contextmanager
    def _unpacked(self) -> Iterator[pa.NativeFile]:
        with self._path.open("rb") as file:
            yield pa.input_stream(file, compression=self._packed)

    def mark(self) -> tuple[int, int]:
        """What changes with the file: its length and its time of writing."""
        with no_values_in_errors(self._name, _words):
            found = self._path.stat()
            return found.st_size, found.st_mtime_ns

    def _head(self) -> str:
        """The first lines; bytes outside UTF-8 stay, as they may be a record's."""
        with no_values_in_errors(self._name, _words), self._unpacked() as stream:
            head = stream.read(WORKER.csv_line_bytes)
        # A text of another width has zeros beside its first letters, or a mark in front.
        zero = head[:64].find(b"\0")
        is_marked = head[:2] in (b"\xff\xfe", b"\xfe\xff")
        if zero >= 0 or is_marked:
            width = "16" if is_marked else "16le" if zero % 2 else "16be"
            raise PrivateDataError(
                f"{self._name} holds no UTF-8 at line 1: it looks like UTF-16. Convert it, for "
                f"example with `iconv -f utf-{width} -t utf-8`."
            )
        return str(head, "utf-8-sig", "surrogateescape")

    def _header_of(self, head: str) -> _Header:
        """The first row that is not blank; its names as written: DuckDB would rename some."""
        with no_values_in_errors(self._name, _words):
            text = io.StringIO(head, newline="")
            rows = csv.reader(text, delimiter=self._delimiter, skipinitialspace=True)
            for n_rows, row in enumerate(rows, start=1):
                names = tuple(name.strip() for name in row)
                if any(names):
                    "".join(names).encode()
                    return _Header(names, n_rows, rows.line_num)
        raise PrivateDataError(f"{self._name} is empty: it has no header line.")

    @property
    def advice(self) -> str:
        """Where the column names stand."""
        at = f"The header of {self._name} is line {self._header.n_lines:,}"
        if self._header.names[0].startswith("#"):
            return f"{at}. Delete comment lines before the header."
        return f"{at}: name the column there, or say `column` in the domain file."

    def _why(self, error: Exception) -> str:
        """How reading failed, in words."""
        at = self._otherwise_ended() if "state machine" in str(error) else 0
        if not at:
            return _words(error)
        return (
            f"ends its lines in two ways (LF and CRLF): line {at:,} otherwise than those before. "
            "Write all alike, for example with `sed -i 's/\\r$//'`."
        )

    def _otherwise_ended(self) -> int:
        """The first line with another line end than the first one; 0 for none."""
        ends: bytes | None = None
        with self._unpacked() as stream:
            for n, line in enumerate(io.BufferedReader(stream), start=1):
                own = b"\r\n" if line.endswith(b"\r\n") else b"\n"
                ends = ends or own
                if own != ends or b"\r" in line.removesuffix(own):
                    return n
        return 0

    def _sql(self, number: int) -> str:
        """The table of an open file."""
        packed = f", compression = '{self._packed}'" if self._packed else ""
        columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(self._header.names)))
        return (
            f"read_csv('/proc/self/fd/{number}', columns = {{{columns}}}, "
            f"{_DIALECT}, skip = {self._header.n_rows}, delim = '{self._delimiter}', "
            f"buffer_size = {WORKER.csv_buffer_bytes}{packed})"
        )


def open_csv(path: Path, *, name: str = "") -> CsvFile:
    """An open file.

    Args:
        name: how it is called, where the path is that of a copy.

    Raises:
        PrivateDataError: it cannot be read, or has a column twice.
    """
    if not path.is_file():
        raise PrivateDataError(f"{path} is not a file.")
    return CsvFile(path.absolute(), name or path.name)


@contextmanager
def _reading_alone(number: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory that can open one open file alone, and load or fetch nothing."""
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute(f"SET allowed_paths = ['/proc/self/fd/{number}']")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET preserve_insertion_order = true")
        # Else the whole file stays in memory.
        connection.execute("SET enable_external_file_cache = false")
        yield connection


def _unquoted_line(head: str) -> str:
    """The first line that is not blank, without quoted parts."""
    lines = _QUOTED.sub("", head).splitlines()
    return next((line for line in lines if line.strip()), "")


def _words(error: Exception) -> str:
    """How reading failed; with the line if DuckDB tells it."""
    text = str(error)
    found = _LINE.search(text)
    line = f" at line {int(found[1]):,}" if found else ""
    if isinstance(error, UnicodeError):
        line = " at line 1"
    if isinstance(error, UnicodeError) or "nvalid unicode" in text or "not utf-8 encoded" in text:
        return (
            f"holds bytes that are no UTF-8{line}. Convert it, for example with "
            "`iconv -f latin1 -t utf-8`."
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return f"cannot be read{line}: there is not enough memory."
    if isinstance(error, duckdb.IOException | OSError):
        return f"cannot be read to its end{line}: it is cut off, damaged or not allowed to be read."
    return f"cannot be read{line}: it has another number of columns there, or an open quote."


_NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""What other programs write as the value of a folder of records without one."""
_WHOLE = re.compile(r"-?[0-9]+")


def data_files(paths: Iterable[str], base: str, *, name: str) -> list[str]:
    """The data files, in the order of their names.

    Left out are files of other endings, and what other programs write beside their data: files and
    folders that begin with `_` or `.`.

    Args:
        paths: all files below the folder `base`.
        name: how messages call the folder.

    Raises:
        PrivateDataError: there are none, or Parquet beside CSV: one kind would be left unread.
    """
    seen = sorted(path for path in paths if not _is_hidden(PurePath(path).relative_to(base)))
    parquet = [path for path in seen if path.lower().endswith(".parquet")]
    texts = [path for path in seen if is_csv_name(path)]
    if parquet and texts:
        raise PrivateDataError(
            f"{name} holds .parquet files and .csv or .tsv files. Keep one kind in a folder."
        )
    if not (parquet or texts):
        raise PrivateDataError(f"{name} holds no .parquet, .csv or .tsv file.")
    return parquet or texts


def folder_values(path: str, base: str) -> dict[str, str]:
    """The columns of folders named `KEY=VALUE` between a base and a file."""
    pairs = (part.partition("=") for part in PurePath(path).relative_to(base).parts[:-1])
    return {unquote(key): unquote(value) for key, sign, value in pairs if key and sign}


class CsvFolder:
    """One or more files of one schema, in the order of their names.

    Args:
        files: each open.
        values: for each file, the columns that its folders give, by name; '' is missing.
        name: how messages call the folder.
    """

    def __init__(
        self, files: Sequence[CsvFile], values: Sequence[Mapping[str, str]], *, name: str
    ) -> None:
        self.file: Path | None = None
        self._files, self._values, self._name = list(files), list(values), name
        self._check_one_schema()
        self.advice = files[0].advice
        self.columns = named([*self._files[0].columns, *map(Column, self._values[0])])
        self._marks = self._seen()

    def n_rows(self) -> int | None:
        """The sum of each file's estimate; None with a compressed file."""
        found = [file.n_rows() for file in self._files]
        known = [n for n in found if n is not None]
        return sum(known) if len(known) == len(found) else None

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows, file by file."""
        for file, values in zip(self._files, self._values, strict=True):
            # A file is read through one of its own columns, even if folders give all wanted ones.
            own = [name for name in names if name not in values] or [file.columns[0].name]
            for batch in file.batches(own, days):
                columns = [_column(batch, name, values) for name in names]
                yield pa.RecordBatch.from_arrays(columns, names=list(names))
        if self._seen() != self._marks:
            raise PrivateDataError(f"{self._name} was changed while it was read. Read it again.")

    def _seen(self) -> list[tuple[int, int]]:
        return [file.mark() for file in self._files]

    def _check_one_schema(self) -> None:
        """Refuse files without a column of the others: it would silently be missing in all their
        records."""
        first = [*(c.name for c in self._files[0].columns), *self._values[0]]
        pairs = zip(self._files, self._values, strict=True)
        for i, (file, values) in enumerate(pairs):
            own = [column.name for column in file.columns]
            for name in first:
                if name not in own and name not in values:
                    raise PrivateDataError(
                        f"{self._name}: file {i + 1} of {len(self._files)} lacks column {name}, "
                        f"which the first one has. It has {listed(own)}. "
                        f"{file.advice} All files have one schema."
                    )


def open_csv_folder(
    paths: Sequence[Path], values: Sequence[Mapping[str, str]], *, names: Sequence[str], name: str
) -> CsvFolder:
    """The files of a folder.

    Args:
        paths: what is read.
        values: for each, the columns that its folders give, as they are written.
        names: for each, what its ending is taken from.
        name: how messages call the folder.

    Raises:
        PrivateDataError: one cannot be read, has a column twice, or lacks one of the first's.
    """
    shown = [f"{PurePath(n).name} (file {i} of {len(names)})" for i, n in enumerate(names, 1)]
    files = [
        CsvFile(path.absolute(), ending, shown=text)
        for path, ending, text in zip(paths, names, shown, strict=True)
    ]
    return CsvFolder(files, _plain(values), name=name)


def _is_hidden(path: PurePath) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _plain(values: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The values in the form of Parquet's folders: whole numbers without leading zeros."""
    whole = {
        key
        for key in values[0]
        if all(_WHOLE.fullmatch(v.get(key, "")) or v.get(key) == _NOTHING for v in values)
    }

    def plain(key: str, value: str) -> str:
        if value == _NOTHING:
            return ""
        return str(int(value)) if key in whole else value

    return [{key: plain(key, value) for key, value in v.items()} for v in values]


def _column(batch: pa.RecordBatch, name: str, values: Mapping[str, str]) -> pa.Array:
    if name not in values:
        return batch.column(name)
    return pa.repeat(pa.scalar(values[name], pa.string()), batch.num_rows)
