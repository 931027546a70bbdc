"""The present content of attached datasets.

Private data that arrive over time: sealed periods in memory, each filled up to its capacity.

A scan reads the periods that a query is about, and of each as many records as its capacity, which
is public. So its time does not tell how many records there are. What a period is filled up with are
records of the first cell, whose number is taken off again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from secrets import compare_digest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qserver.errors import BusyError, ConfigError, MeasurementError, PrivateDataError
from qserver.query.class_grid import ProductPartition
from qserver.query.domain import Domain
from qserver.query.domain_file import domain_from_document
from qserver.query.linear_query import LinearQuery
from qserver.query.sealed_periods import periods_of
from qserver.records.dataset import DatasetMeta
from worker.journal.journal import Journal
from worker.journal.records import Retired, Sealed
from worker.private.content_digests import Content
from worker.private.parts import Part, PartFolder
from worker.private.record_tables import RecordTable, table_from_columns
from worker.private.registry import Registry, RegistryEntry
from worker.private.seal_file import fingerprint_of, fingerprint_of_table, open_seal
from worker.private.spark_place import SparkCodes, SparkPlace
from worker.private.truncation import PersonRule
from worker.sources.address import Address

if TYPE_CHECKING:
    from worker.private.snapshot import Snapshot
    from worker.private.spark.tables import SparkTable


class GrowingTable:
    """The sealed periods of one snapshot; for one thread.

    Args:
        meta: its public facts; `growth` says how its data arrive.
        folder: where its parts are.
    """

    def __init__(self, meta: DatasetMeta, folder: PartFolder) -> None:
        if meta.growth is None:
            raise MeasurementError
        self._sizes = meta.domain.sizes
        self._axis = meta.period_axis
        self._capacity = meta.growth.capacity
        self._folder = folder
        self._begin(0)

    def _begin(self, first: int) -> None:
        """Start without data; those to come begin with the period `first`."""
        self._first = first
        self._n_fillers: list[int] = []
        self._table = table_from_columns(
            {i: np.zeros(0, dtype=np.int64) for i in range(len(self._sizes))}, self._sizes
        )

    @property
    def n_sealed(self) -> int:
        """The number of first periods whose data are in memory or erased."""
        return self._first + len(self._n_fillers)

    def follow(self, sealed: Sequence[Sealed], retired: Retired | None = None) -> bool:
        """Read newly sealed parts, and forget retired ones; returns whether any was.

        Raises:
            PrivateDataError: a part is missing, or is not what was sealed.
        """
        first = 0 if retired is None else retired.before
        if (sealed[-1].stop if sealed else 0) == self.n_sealed and first == self._first:
            return False
        if first != self._first:
            self._begin(first)
        for part in self._folder.read(sealed, retired):
            if part.start >= self.n_sealed:
                self._take_in(part)
        return True

    def holds(self, query: LinearQuery) -> bool:
        """Whether all periods of a query are in memory; public."""
        runs = periods_of(query, self._axis)
        return all(self._first <= run.start and run.stop <= self.n_sealed for run in runs)

    def answer(self, query: LinearQuery) -> Fraction:
        """The exact true answer on the sealed records.

        Raises:
            MeasurementError: it is about a period that is not sealed, or whose records are erased.
        """
        if query.sizes != self._sizes or not self.holds(query):
            raise MeasurementError
        return sum((self._on(run, query) for run in periods_of(query, self._axis)), Fraction(0))

    def counts(self, partition: ProductPartition) -> list[int]:
        """The number of records in each cell, row-major, by a scan of each period.

        Raises:
            MeasurementError: a cell is about a period that is not sealed, or erased.
        """
        if partition.sizes != self._sizes or not self.holds(partition.inside):
            raise MeasurementError
        axes = [a.axis for a in partition.axes]
        place = axes.index(self._axis) if self._axis in axes else None
        others = ProductPartition(
            partition.sizes, tuple(a for a in partition.axes if a.axis != self._axis)
        )
        found = np.zeros(partition.shape, dtype=np.int64)
        by_part = found[None] if place is None else np.moveaxis(found, place, 0)
        for run in periods_of(partition.inside, self._axis):
            for period in run:
                part = 0 if place is None else partition.axes[place].dense[period]
                counts = np.array(self._slice(range(period, period + 1)).counts(others))
                counts[0] -= self._n_fillers[period - self._first]
                by_part[part] += counts.reshape(others.shape)
        return [int(n) for n in found.ravel()]

    def _on(self, run: range, query: LinearQuery) -> Fraction:
        """The answer on neighbouring periods."""
        found, cell = self._slice(run).answer(query), [0] * len(self._sizes)
        for period in run:
            cell[self._axis] = period
            found -= self._n_fillers[period - self._first] * query.value_at(cell)
        return found

    def _slice(self, run: range) -> RecordTable:
        """The records of neighbouring periods, each filled up to the capacity."""
        table = copy.copy(self._table)
        start, stop = run.start - self._first, run.stop - self._first
        scanned = slice(start * self._capacity, stop * self._capacity)
        object.__setattr__(table, "codes", tuple(codes[scanned] for codes in table.codes))
        return table

    def _take_in(self, part: Part) -> None:
        """Add the periods of a part; MeasurementError if one exceeds its capacity."""
        order = np.argsort(part.codes[self._axis], kind="stable")
        begins = np.searchsorted(
            part.codes[self._axis][order], np.arange(part.start, part.stop + 1)
        )
        if np.diff(begins).max(initial=0) > self._capacity:
            raise MeasurementError
        columns: dict[int, list[NDArray[Any]]] = {i: [c] for i, c in enumerate(self._table.codes)}
        for i, period in enumerate(range(part.start, part.stop)):
            chosen = order[begins[i] : begins[i + 1]]
            for axis, kept in columns.items():
                filled = np.full(self._capacity, period if axis == self._axis else 0)
                filled[: len(chosen)] = part.codes[axis][chosen]
                kept.append(filled)
            self._n_fillers.append(self._capacity - len(chosen))
        joined = {axis: np.concatenate(kept) for axis, kept in columns.items()}
        self._table = table_from_columns(joined, self._sizes)


def sealed_table(registry: Registry, entry: RegistryEntry) -> RecordTable:
    """The records of an attached snapshot, from its seal. Its source may be gone.

    Raises:
        PrivateDataError: the seal is missing, or is not what was attached.
    """
    if entry.grows:
        raise PrivateDataError(f"The data of {entry.name} arrive in parts: there is no one seal.")
    domain = domain_from_document(entry.domain)
    if entry.spark is not None:
        raise PrivateDataError(f"The codes of {entry.name} are on Spark, and are only counted.")
    if not entry.sealed:
        found_now = _still_as_attached(registry, entry).seal
        if found_now is None:
            raise PrivateDataError(f"The file of {entry.name} gave no codes.")
        return found_now.table()
    table = open_seal(registry.seal_path(entry), domain)
    found = fingerprint_of_table(table, domain, registry.key())
    if not compare_digest(found, entry.fingerprint):
        raise PrivateDataError(f"The seal of {entry.name} is not what was attached.")
    return table


def table_on_spark(entry: RegistryEntry) -> SparkTable | None:
    """The codes of an attached snapshot on Spark, not opened yet; None for others."""
    if entry.spark is None:
        return None
    from worker.private.spark.tables import SparkTable

    sizes = domain_from_document(entry.domain).sizes
    return SparkTable(SparkCodes.of_plain(entry.spark), sizes)


def check_spark(registry: Registry, entry: RegistryEntry) -> None:
    """Return if a snapshot's codes on Spark have the attached fingerprint.

    Raises:
        PrivateDataError: they have not, or Spark cannot be reached.
    """
    table, domain = table_on_spark(entry), domain_from_document(entry.domain)
    if table is None:
        return
    try:
        codes = table.open()
        n = int(codes.check("").split()[0])
        columns = (codes.pieces(axis) for axis in range(len(domain.sizes)))
        found = fingerprint_of(columns, n, domain, registry.key())
    finally:
        table.close()
    if not compare_digest(found, entry.fingerprint):
        raise PrivateDataError(f"The codes of {entry.name} on Spark are not what was attached.")


def seal_entry(registry: Registry, entry: RegistryEntry) -> None:
    """Seal a snapshot of an earlier version, which read its file at each start.

    Raises:
        PrivateDataError: the file cannot be read, or is not what was attached.
    """
    found = _still_as_attached(registry, entry)
    if found.seal is not None:
        content = {name: str(text) for name, text in found.content.details().items()}
        sealed = replace(entry, sealed=True, fingerprint=found.fingerprint, content=content)
        registry.put_seal(sealed, found.seal)


def content_now(registry: Registry, entry: RegistryEntry) -> Content | None:
    """The content of an earlier version's file; None if it can no longer be known."""
    if entry.content is not None:
        return Content.of_details(entry.content)
    if entry.sealed or entry.grows:
        return None
    try:
        return _still_as_attached(registry, entry).content
    except PrivateDataError:
        return None


def _still_as_attached(registry: Registry, entry: RegistryEntry) -> Snapshot:
    """The content of the file of a snapshot without a seal."""
    # Readers of files load slowly, and a worker reads seals.
    from worker.private.snapshot import read_snapshot

    found = read_snapshot(
        Address(entry.data),
        domain_from_document(entry.domain),
        key=registry.key(),
        folder=registry.seals,
        person=entry.person_rule,
    )
    if not compare_digest(found.in_order, entry.fingerprint):
        raise PrivateDataError(f"The file of {entry.name} was changed since it was attached.")
    return found


def sweep_parts(registry: Registry, entry: RegistryEntry, journal: Journal) -> None:
    """Delete part files that no line of the journal names.

    Their append died before it was decided. Nothing is done while an append is under way.
    """
    folder = registry.parts(entry)
    with suppress(BusyError), folder.appending(), journal.exclusive():
        state = journal.state
        folder.sweep(state.parts.get(entry.snapshot, ()), state.retired.get(entry.snapshot))


def read_parts(registry: Registry, entry: RegistryEntry, journal: Journal) -> GrowingTable:
    """The sealed parts of a snapshot whose data arrive over time.

    Raises:
        PrivateDataError: a part is missing, or is not what was sealed.
    """
    with journal.exclusive():
        record = journal.state.by_snapshot.get(entry.snapshot)
    if record is None:
        raise PrivateDataError(f"The journal does not know dataset {entry.name}.")
    meta = DatasetMeta.from_json(str(record.details["meta"]))
    table = GrowingTable(meta, registry.parts(entry))
    follow_parts(table, entry.snapshot, journal)
    return table


def follow_parts(table: GrowingTable, snapshot: str, journal: Journal) -> None:
    """Bring a table up to the journal; PrivateDataError as `read_parts`."""
    sealed, retired = _parts_now(snapshot, journal)
    try:
        table.follow(sealed, retired)
    except PrivateDataError:
        # No lock is held here, so files may have been retired while they were read.
        if (now := _parts_now(snapshot, journal)) == (sealed, retired):
            raise
        table.follow(*now)


def _parts_now(snapshot: str, journal: Journal) -> tuple[tuple[Sealed, ...], Retired | None]:
    with journal.exclusive():
        state = journal.state
        return tuple(state.parts.get(snapshot, ())), state.retired.get(snapshot)


def read_where_it_stays(
    data: Path | Address,
    domain: Domain,
    place: SparkPlace | None,
    *,
    key: bytes,
    folder: Path,
    person: PersonRule | None,
    say: Callable[[str], None],
    empty: bool,
    as_it_is: bool,
) -> Snapshot:
    """A snapshot of a source that stays there; arguments and errors as `read_snapshot`.

    Args:
        place: where on Spark the codes stay and are counted; None for the worker's folder.
    """
    # A worker that reads seals needs no readers of files.
    from worker.private.snapshot import read_snapshot

    if place is None:
        return read_snapshot(
            data,
            domain,
            key=key,
            folder=folder,
            person=person,
            say=say,
            empty=empty,
            as_it_is=as_it_is,
        )
    address = Address.of(data)
    if not address.is_spark:
        raise ConfigError("source", "be spark:// or spark-connect:// where the codes are on Spark")
    # Loaded only here: a worker that answers questions codes nothing.
    from worker.private.spark.coding import snapshot_on_spark

    return snapshot_on_spark(
        address,
        domain,
        place,
        key=key,
        person=person,
        say=say,
        empty=empty,
        as_it_is=as_it_is,
    )
