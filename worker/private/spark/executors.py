"""The code that runs on Spark's machines: coding, keeping and counting as on one machine.

Each function makes one that takes and gives Arrow batches. They need this product, of the same
version, in the Python of Spark's machines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import qserver
from qserver.query.class_grid import ProductPartition
from qserver.query.domain import Domain
from qserver.query.labels import code_dtype
from qserver.query.linear_query import LinearQuery
from worker.coding.coder import coder_of
from worker.private.people import People
from worker.private.record_tables import RecordTable
from worker.private.spark_place import column_names
from worker.private.truncation import PersonRule, kept_by_period, kept_records

OnBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def coding(domain: Domain, person_column: str) -> OnBatches:
    """From the source's columns, in the coder's order, to codes, person and, last, a tally."""

    def code(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with coder_of(domain, person_column=person_column) as coder:
            for batch in batches:
                found = coder.of(batch)
                yield _coded(domain.sizes, found.codes, found.people)
            nothing = tuple(np.zeros(1, dtype=code_dtype(size)) for size in domain.sizes)
            yield _coded(domain.sizes, nothing, None, json.dumps(coder.tally.to_plain()))

    return code


def _coded(
    sizes: Sequence[int], codes: Sequence[NDArray[Any]], people: pa.Array | None, tally: str = ""
) -> pa.RecordBatch:
    n = len(codes[0])
    columns = [pa.array(column.astype(np.int32)) for column in codes]
    columns.append(pa.array([""] * n, pa.string()) if people is None else people)
    columns.append(pa.array([tally or None] * n, pa.string()))
    return pa.RecordBatch.from_arrays(columns, names=[*column_names(sizes), "person", "tally"])


def keeping(sizes: Sequence[int], rule: PersonRule, key: bytes) -> OnBatches:
    """The codes of the records that the rule for one person's keeps.

    All records of a person must come one after the other.

    Args:
        key: the worker's secret, which chooses whose records stay.
    """
    names = column_names(sizes)

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _whole_people(batches):
            codes = [table.column(name).to_numpy() for name in names]
            people = People.of(table.column("person").chunks)
            if rule.by_period is None:
                mask = kept_records(people, codes, most=rule.most, key=key)
            else:
                mask = kept_by_period(people, codes, rule=rule.by_period, key=key).mask
            kept = [pa.array(column[mask]) for column in codes]
            yield pa.RecordBatch.from_arrays(kept, names=names)

    return keep


def _whole_people(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of neighbouring records, cut only where one person's end."""
    rest: pa.Table | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        table = pa.Table.from_batches([batch])
        table = table if rest is None else pa.concat_tables([rest, table])
        last = table.column("person")[table.num_rows - 1]
        start = pc.index(table.column("person"), last).as_py()
        if start:
            yield table.slice(0, start)
        rest = table.slice(start)
    if rest is not None:
        yield rest


def answering(query: LinearQuery) -> OnBatches:
    """The exact answer on a part of the records, as one row of text. Columns as `axes_of`."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = sum((part.answer(query) for part in _tables(batches, query.sizes)), start=0)
        yield pa.RecordBatch.from_arrays([pa.array([str(total)])], names=["answer"])

    return answer


def counting(partition: ProductPartition) -> OnBatches:
    """The records of a part in each cell, as one row of bytes. Columns as `axes_of`."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = np.zeros(partition.n_cells, dtype="<i8")
        for part in _tables(batches, partition.sizes):
            found += np.array(part.counts(partition), dtype=np.int64)
        column = pa.array([found.tobytes()], pa.binary())
        yield pa.RecordBatch.from_arrays([column], names=["counts"])

    return count


def axes_of(asked: LinearQuery | ProductPartition) -> list[int]:
    """The attributes whose codes a scan reads, public; at least one, so that records count."""
    if isinstance(asked, ProductPartition):
        found = {axis.axis for axis in asked.axes}
    else:
        found = {factor.axis for term in asked.terms for factor in term.factors}
    return sorted(found) or [0]


def _tables(batches: Iterable[pa.RecordBatch], sizes: Sequence[int]) -> Iterator[RecordTable]:
    """The records of each batch; unread attributes have a code without room."""
    for batch in batches:
        unread = np.broadcast_to(np.zeros(1, dtype=np.uint8), (batch.num_rows,))
        codes: list[Any] = [unread] * len(sizes)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            axis = int(name[1:])
            codes[axis] = _narrow(column.to_numpy(zero_copy_only=False), sizes[axis])
        yield RecordTable(tuple(codes), tuple(sizes))


def _narrow(column: NDArray[Any], size: int) -> NDArray[Any]:
    """Codes in their smallest type; one that does not fit stays too large, and is refused."""
    if len(column) and not 0 <= int(column.min()) <= int(column.max()) < size:
        return np.full(len(column), size, dtype=np.uint32)
    return np.ascontiguousarray(column, dtype=code_dtype(size))


def telling_version() -> OnBatches:
    """One row with this product's version on a machine of Spark's."""

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_arrays([pa.array([qserver.__version__])], names=["version"])

    return tell
