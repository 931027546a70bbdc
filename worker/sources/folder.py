"""Folders: which of their files hold data, and folders of CSV or TSV files read as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import unquote

import pyarrow as pa

from qserver.errors import PrivateDataError
from worker.sources.files import CsvFile, is_csv_name
from worker.sources.source import Column, Days, listed, named

_NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""What other programs write as the value of a folder of records without one."""
_WHOLE = re.compile(r"-?[0-9]+")


def data_files(paths: Iterable[str], base: str, *, name: str) -> list[str]:
    """The files that hold data, in the order of their names.

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
    """The columns that folders named `KEY=VALUE` between a base and a file give."""
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
        """By the first lines of each; None with a packed file."""
        found = [file.n_rows() for file in self._files]
        known = [n for n in found if n is not None]
        return sum(known) if len(known) == len(found) else None

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows, file by file."""
        for file, values in zip(self._files, self._values, strict=True):
            # A file is read by a column of its own, also where folders give all that is wanted.
            own = [name for name in names if name not in values] or [file.columns[0].name]
            for batch in file.batches(own, days):
                columns = [_column(batch, name, values) for name in names]
                yield pa.RecordBatch.from_arrays(columns, names=list(names))
        if self._seen() != self._marks:
            raise PrivateDataError(f"{self._name} was changed while it was read. Read it again.")

    def _seen(self) -> list[tuple[int, int]]:
        return [file.mark() for file in self._files]

    def _check_one_schema(self) -> None:
        """A column that is absent in a file would be missing in all its records, and unsaid."""
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
    """The values as Parquet's folders give them: whole numbers without zeros in front."""
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
