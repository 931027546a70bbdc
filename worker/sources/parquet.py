"""Parquet files, and folders of them, on this machine or in S3, through Arrow.

Only the wanted columns are read, a few row groups at a time, and of an append only the row groups
that may hold the wanted days.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from qserver.errors import PrivateDataError
from worker.constants import WORKER
from worker.sources.files import folder_values
from worker.sources.source import Column, Days, listed, named, no_values_in_errors

_SCAN = ds.ParquetFragmentScanOptions(
    use_buffered_stream=True, buffer_size=1 << 20, pre_buffer=False
)


class ParquetFiles:
    """One or more files of one schema, in the order of their names.

    Args:
        files: their paths in the file system.
        base: the folder below which `KEY=VALUE` folders give further columns; '' for one file.
        name: how messages call them.
    """

    def __init__(
        self, files: Sequence[str], filesystem: fs.FileSystem, *, base: str, name: str
    ) -> None:
        self.file: Path | None = None
        self.advice = "Write the file with these names, or say `column` in the domain file."
        self._files, self._filesystem, self._name = list(files), filesystem, name
        with no_values_in_errors(name, _words):
            schemas = [pq.read_schema(file, filesystem=filesystem) for file in files]
        self._check_one_schema(schemas)
        given = folder_values(files[0], base) if base else {}
        self._check_distinct([*schemas[0].names, *given])
        with no_values_in_errors(name, _words):
            few = _of_few_texts(pq.read_metadata(files[0], filesystem=filesystem))
            form = ds.ParquetFileFormat(dictionary_columns=few, default_fragment_scan_options=_SCAN)
            found = ds.FileSystemDatasetFactory(filesystem, self._files, form, _options(base))
            self._dataset = found.finish(found.inspect())
        self.columns = named([_column(field) for field in self._dataset.schema])

    def n_rows(self) -> int | None:
        """The number in the files' own footers."""
        with no_values_in_errors(self._name, _words):
            return int(self._dataset.count_rows())

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows of the wanted days, file by file."""
        before = self._marks()
        with no_values_in_errors(self._name, _words):
            fragments = list(self._dataset.get_fragments())
        for i, fragment in enumerate(fragments, start=1):
            n_read = 0
            for batch in self._batches_of(fragment, names, days):
                n_read += batch.num_rows
                yield batch
            with no_values_in_errors(self._name, _words):
                held = fragment.count_rows()
            if days is None and n_read != held:
                raise PrivateDataError(
                    f"{self._name}: file {i} of {len(fragments)} holds {held:,} records, and "
                    f"{n_read:,} were read. It is damaged."
                )
        if self._marks() != before:
            raise PrivateDataError(f"{self._name} was changed while it was read. Read it again.")

    def _batches_of(
        self, fragment: ds.Fragment, names: Sequence[str], days: Days | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file."""
        schema = self._dataset.schema
        with no_values_in_errors(self._name, _words):
            found = fragment.to_batches(
                schema=schema,
                columns=list(names),
                filter=None if days is None else _within(days, schema),
                batch_size=WORKER.batch_records,
                batch_readahead=1,
                use_threads=False,
            )
        while True:
            with no_values_in_errors(self._name, _words):
                batch = next(found, None)
            if batch is None:
                return
            yield batch

    def _marks(self) -> list[tuple[object, object]]:
        with no_values_in_errors(self._name, _words):
            return [(i.size, i.mtime_ns) for i in self._filesystem.get_file_info(self._files)]

    def _check_distinct(self, names: Sequence[str]) -> None:
        """Refuse a repeated name: Arrow reads no column of such a file."""
        twice = [name for name in dict.fromkeys(names) if list(names).count(name) > 1]
        if twice:
            raise PrivateDataError(
                f"{self._name} has more than one column {listed(twice)}. Write it anew with other "
                f"names. It has {listed(names)}."
            )

    def _check_one_schema(self, schemas: Sequence[pa.Schema]) -> None:
        """Refuse files without a column of the others: it would silently be missing in all their
        records."""
        first = schemas[0]
        for i, schema in enumerate(schemas):
            self._check_distinct(schema.names)
            for field in first:
                at = schema.get_field_index(field.name)
                if at < 0 or schema.field(at).type != field.type:
                    how = "lacks" if at < 0 else "has another type for"
                    raise PrivateDataError(
                        f"{self._name}: file {i + 1} of {len(schemas)} {how} column {field.name}, "
                        f"which the first one has. It has {listed(schema.names)}. Give all files "
                        "one schema."
                    )


def parquet_file(path: Path) -> ParquetFiles:
    """One file on this machine; PrivateDataError."""
    if not path.is_file():
        raise PrivateDataError(f"{path} is not a file.")
    found = ParquetFiles([str(path)], fs.LocalFileSystem(), base="", name=path.name)
    found.file = path
    return found


def _options(base: str) -> ds.FileSystemFactoryOptions:
    if not base:
        return ds.FileSystemFactoryOptions()
    partitioning = ds.HivePartitioning.discover(infer_dictionary=False)
    return ds.FileSystemFactoryOptions(partition_base_dir=base, partitioning=partitioning)


def _column(field: pa.Field) -> Column:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return Column(field.name, str(kind), pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _of_few_texts(found: pq.FileMetaData) -> set[str]:
    """Columns of texts whose file keeps each distinct text once, and few of them, in all row
    groups.

    They are read as numbers of texts. Of many texts that would take longer than the texts do.
    """
    schema = found.schema.to_arrow_schema()
    names = [c.name for c in schema if pa.types.is_string(c.type)]
    places = {found.schema.column(i).path: i for i in range(found.num_columns)}
    groups = [found.row_group(i) for i in range(found.num_row_groups)]
    return {
        name
        for name in names
        if all(_dictionary_bytes(g.column(places[name])) < WORKER.few_texts_bytes for g in groups)
    }


def _dictionary_bytes(chunk: pq.ColumnChunkMetaData) -> float:
    """Bytes of the distinct texts of a row group; infinite if it keeps every text."""
    if not chunk.has_dictionary_page:
        return math.inf
    return float(chunk.data_page_offset - chunk.dictionary_page_offset)


def _within(days: Days, schema: pa.Schema) -> ds.Expression:
    """A condition that holds for every row of these days, in the column's type."""
    kind = schema.field(days.column).type
    ends = [_as(kind, day) for day in (days.first, days.stop)]
    field = pc.field(days.column)
    return (field >= ends[0]) & (field < ends[1])


def _as(kind: pa.DataType, day: date) -> pa.Scalar:
    if pa.types.is_date(kind):
        return pa.scalar(day, pa.date32()).cast(kind)
    naive = pa.scalar(datetime.combine(day, time()), pa.timestamp("us"))
    return naive.cast(pa.timestamp(kind.unit)).cast(pa.int64()).cast(kind)


def _words(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "is not there any more."
    if isinstance(error, PermissionError):
        return "may not be read."
    if isinstance(error, MemoryError):
        return "cannot be read: there is not enough memory."
    if isinstance(error, pa.ArrowInvalid | pa.ArrowTypeError):
        return "cannot be read: a file is no Parquet, is damaged, or has another schema."
    if isinstance(error, OSError):
        return "cannot be read to its end: it is cut off, damaged or out of reach."
    return f"cannot be read ({type(error).__name__})."
