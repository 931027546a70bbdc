"""Open a source by its address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.sources.address import Address
from worker.sources.files import data_files, folder_values, is_csv_name, open_csv, open_csv_folder
from worker.sources.source import Source


@contextmanager
def open_source(address: Address, *, folder: Path) -> Iterator[Source]:
    """An open source, read once and closed at the end.

    The modules load only here: a worker that answers questions needs none of them.

    Args:
        folder: where what lies elsewhere may be copied to, as a file without a name.

    Raises:
        ConfigError: a driver is not installed, or a secret is missing.
        PrivateDataError: the source cannot be reached or read, or has a column twice.
    """
    if address.kind == "sqlite":
        from worker.sources.sqlite import open_sqlite

        with open_sqlite(address) as source:
            yield source
    elif address.kind == "duckdb":
        from worker.sources.duckdb_file import open_duckdb

        with open_duckdb(address) as source:
            yield source
    elif address.kind == "postgresql":
        from worker.sources.postgres import open_postgres

        with open_postgres(address) as source:
            yield source
    elif address.kind == "adbc":
        from worker.sources.adbc import open_adbc

        with open_adbc(address) as source:
            yield source
    elif address.is_spark:
        from worker.sources.spark import open_spark

        with open_spark(address) as source:
            yield source
    elif address.kind == "s3":
        from worker.sources.s3 import open_s3

        with open_s3(address.text, folder=folder) as source:
            yield source
    elif address.path.is_dir():
        yield _folder(address.path)
    elif address.path.suffix.lower() == ".parquet":
        from worker.sources.parquet import parquet_file

        yield parquet_file(address.path)
    else:
        yield open_csv(address.path)


def _folder(base: Path) -> Source:
    """All files of data in a folder and below."""
    name = base.name or str(base)
    paths = [str(path) for path in base.rglob("*") if path.is_file()]
    files = data_files(paths, str(base), name=name)
    if is_csv_name(files[0]):
        values = [folder_values(file, str(base)) for file in files]
        return open_csv_folder([*map(Path, files)], values, names=files, name=name)
    from pyarrow.fs import LocalFileSystem

    from worker.sources.parquet import ParquetFiles

    return ParquetFiles(files, LocalFileSystem(), base=str(base), name=name)
