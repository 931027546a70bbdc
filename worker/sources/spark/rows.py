"""A table or query of Spark, read batch by batch as every other source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from qserver.errors import PrivateDataError
from worker.sources.address import Address
from worker.sources.source import BY_QUERY, Column, Days, named, no_values_in_errors
from worker.sources.spark.session import NAME, close_session, open_session, words


class SparkTable:
    """A table or query of an open session."""

    def __init__(self, session: Any, address: Address) -> None:
        self.file: Path | None = None
        self.advice = BY_QUERY
        self.session = session
        with no_values_in_errors(NAME, words):
            self._frame = (
                session.sql(address.query.strip().rstrip(";"))
                if address.query
                else session.table(address.table)
            )
            found = list(self._frame.dtypes)
        self.columns = named([Column(n, t, t in ("date", "timestamp")) for n, t in found])

    def n_rows(self) -> int | None:
        """Nobody knows without a job of its own."""
        return None

    def frame(self, names: Sequence[str]) -> Any:
        """The columns of these names, in this order."""
        with no_values_in_errors(NAME, words):
            return self._frame.select(*["`" + name.replace("`", "``") + "`" for name in names])

    def batches(self, names: Sequence[str], days: Days | None) -> Iterator[pa.RecordBatch]:
        """All rows of one job, a partition of them at a time in memory."""
        del days
        yield from batches_of(self.frame(names))


def batches_of(frame: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a frame as batches, packed on Spark; a partition of them at a time in memory."""
    with no_values_in_errors(NAME, words):
        rows = frame.mapInArrow(_packed(), "batch binary").toLocalIterator()
    while True:
        with no_values_in_errors(NAME, words):
            row = next(rows, None)
            if row is None:
                return
            found = list(pa.ipc.open_stream(bytes(row[0])))
        yield from found


def _packed() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Each batch as one row of bytes; runs on Spark, which needs nothing of the product for it."""

    def pack(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            column = pyarrow.array([sink.getvalue().to_pybytes()], pyarrow.binary())
            yield pyarrow.RecordBatch.from_arrays([column], names=["batch"])

    return pack


@contextmanager
def open_spark(address: Address) -> Iterator[SparkTable]:
    """An open session.

    Raises:
        ConfigError: pyspark or Java is missing, or a secret.
        PrivateDataError: Spark cannot be reached, or has no such table.
    """
    session = open_session(address)
    try:
        yield SparkTable(session, address)
    finally:
        close_session(session)


def rows_of(frame: Any) -> list[Any]:
    """All rows of a small frame, by one job; PrivateDataError where it fails."""
    with no_values_in_errors(NAME, words):
        return list(frame.collect())


def one_row(frame: Any) -> Any:
    """The one row of a frame; PrivateDataError."""
    found = rows_of(frame)
    if len(found) != 1:
        raise PrivateDataError(f"{NAME} gave {len(found)} rows where one is due.")
    return found[0]
