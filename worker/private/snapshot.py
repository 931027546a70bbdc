"""One read of a source into a snapshot: codes, at most k records of each person, sorted, sealed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from qserver.errors import PrivateDataError
from qserver.query.domain import Domain
from worker.coding.coder import CodedBatch, WantedPeriods, coder_of
from worker.coding.tally import Progress, Tally
from worker.constants import WORKER
from worker.private.content_digests import Content, content_of, digest_of
from worker.private.people import GrowingPeople, People
from worker.private.record_tables import Tables, table_from_columns
from worker.private.seal_file import (
    NewSeal,
    PackedRows,
    fingerprint_of,
    fingerprint_of_table,
    half_of_memory,
    seal_rows,
)
from worker.private.spark_place import SparkCodes
from worker.private.truncation import Kept, PersonRule, kept_by_period, kept_records
from worker.sources.address import Address
from worker.sources.kinds import open_source
from worker.sources.source import Days, Source, check_columns


@dataclass(frozen=True, repr=False)
class Snapshot:
    """Converted records: the table, and keyed digests of its content.

    All are private: under add-remove even the number of records is not public.

    Args:
        n_records: of the table.
        fingerprint: of the table, whose records are sorted. A worker serves this content only.
        in_order: the same in the order of the source, as earlier versions had it.
        content: what is compared with the files of other populations.
        seal: the file of the table, which has no name yet; None for a table without records of
            its own.
        spark: where its codes are on Spark; None where they are here.
        person_type: what the column of persons holds, in words; '' without one.
    """

    table: Tables
    n_records: int
    fingerprint: str
    in_order: str
    content: Content
    seal: NewSeal | None
    spark: SparkCodes | None = None
    person_type: str = ""


@dataclass(frozen=True, repr=False)
class Records:
    """Coded records in memory, before any of a person is left out.

    Args:
        codes: per attribute, the code of each record.
        people: the person of each record; None without a column.
        content: what is compared with the files of other populations.
        tally: what became of the rows; private.
    """

    codes: tuple[NDArray[Any], ...]
    people: People | None
    content: Content
    tally: Tally

    def where(self, kept: NDArray[np.bool_]) -> Records:
        """The records in a mask."""
        people = None if self.people is None else self.people.where(kept)
        return Records(tuple(c[kept] for c in self.codes), people, self.content, self.tally)


def _unsaid(_line: str) -> None:
    """The report of a read that nobody watches."""


def read_snapshot(
    data: Path | Address,
    domain: Domain,
    *,
    key: bytes,
    folder: Path,
    person: PersonRule | None = None,
    say: Callable[[str], None] = _unsaid,
    empty: bool = True,
    as_it_is: bool = True,
) -> Snapshot:
    """Read a source into codes by the domain's rules, with at most k records of each person.

    Args:
        folder: where the files without names are that hold the codes; on the disk of the seals.
        key: the worker's secret. Without it anybody could compare a fingerprint with guesses, and
            foresee which records stay.
        person: how many records of one person are kept; None keeps all. Records that the domain's
            rules drop do not count.
        say: told how far the read is, and what became of the rows, for the owner alone.
        empty: whether a source without any row is meant.
        as_it_is: whether a column may be lost, with nearly all of its values none of the domain's.

    Raises:
        ConfigError: a driver is not installed, or a secret is missing.
        PrivateDataError: the source cannot be read, or lacks a column. Shown to the owner only.
    """
    rows = PackedRows(folder, domain.sizes, memory_bytes=half_of_memory())
    with closing(rows), closing(GrowingPeople(folder)) as people:
        # Closed before the rows are sorted: what its engines keep is room for the rows.
        with _reading(data, domain, person, folder=folder, say=say) as read:
            _spool(read.batches(), rows, people)
        if not (empty or read.tally.n_rows):
            raise PrivateDataError("The source has no rows. Nothing was registered.")
        if not as_it_is:
            read.tally.check_found()
        return _Sealing(rows, domain, key, folder).snapshot(people, person, read, say)


class _Sealing:
    """From packed rows to a seal."""

    def __init__(self, rows: PackedRows, domain: Domain, key: bytes, folder: Path) -> None:
        self._rows, self._domain, self._key, self._folder = rows, domain, key, folder

    def snapshot(
        self,
        people: GrowingPeople,
        person: PersonRule | None,
        read: _Read,
        say: Callable[[str], None],
    ) -> Snapshot:
        """Drop a person's excess records, sort, and seal."""
        rows, domain = self._rows, self._domain
        # What Arrow keeps for further batches is room for the rows, which are in memory now.
        pa.default_memory_pool().release_unused()
        axes, kept, same_people = range(len(domain.sizes)), rows.n, ""
        if person is not None:
            mask, same_people = self._bounded(people.people(), person, say)
            kept = int(mask.sum())
            rows.flag(mask)
        flagged = person is not None
        read.tally.n_kept = kept
        in_order = fingerprint_of(
            (rows.pieces(a, flagged=flagged) for a in axes), kept, domain, self._key
        )
        rows.sort()
        content = content_of(
            read.source.file, domain, rows.pieces, rows.n, people=same_people, key=self._key
        )
        seal = seal_rows(rows, domain.sizes, kept, folder=self._folder, flagged=flagged)
        for line in read.tally.lines():
            say(line)
        rows.close()
        table = seal.table()
        fingerprint = fingerprint_of_table(table, domain, self._key)
        who = read.tally.person_type
        return Snapshot(table, kept, fingerprint, in_order, content, seal, person_type=who)

    def _bounded(
        self, people: People, person: PersonRule, say: Callable[[str], None]
    ) -> tuple[NDArray[np.bool_], str]:
        """Mask of the records to keep by the rule for one person's, and the digest of all persons.

        Some persons at a time, and before the rows are in memory: there is not room for both.
        """
        mask = np.zeros(self._rows.n, dtype=np.bool_)
        found: list[Kept] = []
        for places, part in people.parts(WORKER.people_records):
            codes = self._rows.at(places)
            if person.by_period is None:
                mask[places] = kept_records(part, codes, most=person.most, key=self._key)
            else:
                found.append(kept_by_period(part, codes, rule=person.by_period, key=self._key))
                mask[places] = found[-1].mask
        if person.by_period is not None:
            for line in Kept.together(found, mask).lines(person.by_period):
                say(line)
        return mask, digest_of(people, self._key)


def empty_snapshot(
    domain: Domain, *, content: Content, key: bytes, person_type: str = ""
) -> Snapshot:
    """A snapshot without records yet: they arrive in parts.

    Args:
        content: what the file of its first part holds.
        person_type: what the column of persons holds there.
    """
    nothing = np.zeros(0, dtype=np.int64)
    table = table_from_columns(dict.fromkeys(range(len(domain.sizes)), nothing), domain.sizes)
    fingerprint = fingerprint_of_table(table, domain, key)
    return Snapshot(table, 0, fingerprint, fingerprint, content, None, person_type=person_type)


def read_records(
    data: Path | Address,
    domain: Domain,
    *,
    key: bytes,
    folder: Path,
    person: PersonRule | None = None,
    periods: WantedPeriods | None = None,
    say: Callable[[str], None] = _unsaid,
) -> Records:
    """Read a source into codes in memory; arguments and errors as `read_snapshot`.

    Args:
        periods: the periods that are wanted; None for all records.
    """
    rows = PackedRows(folder, domain.sizes, memory_bytes=half_of_memory())
    with (
        closing(rows),
        closing(GrowingPeople(folder)) as growing,
        _reading(data, domain, person, folder=folder, say=say, periods=periods) as read,
    ):
        days = None if periods is None else periods.days(domain)
        _spool(read.batches(days), rows, growing)
        people = None if person is None else growing.people()
        codes = tuple(rows.column(axis) for axis in range(len(domain.sizes)))
        rows.sort()
        same_people = "" if people is None else digest_of(people, key)
        content = content_of(
            read.source.file, domain, rows.pieces, rows.n, people=same_people, key=key
        )
        return Records(codes, people, content, read.tally)


def _spool(batches: Iterable[CodedBatch], rows: PackedRows, people: GrowingPeople) -> None:
    """Write the codes of all batches and the person of each record to their waiting place."""
    for batch in batches:
        rows.add(batch.codes)
        if batch.people is not None:
            people.add(batch.people)


@dataclass(frozen=True)
class _Read:
    """An open source, and its coder."""

    source: Source
    coded: Callable[[pa.RecordBatch], CodedBatch]
    names: list[str]
    tally: Tally
    progress: Progress

    def batches(self, days: Days | None = None) -> Iterator[CodedBatch]:
        """Every batch as codes; all rows or those of some days."""
        dates = {column.name for column in self.source.columns if column.is_date}
        wanted = days if days is not None and days.column in dates else None
        for batch in self.source.batches(self.names, wanted):
            yield self.coded(batch)
            self.progress.add(batch.num_rows)
        self.progress.end()


@contextmanager
def _reading(
    data: Path | Address,
    domain: Domain,
    person: PersonRule | None,
    *,
    folder: Path,
    say: Callable[[str], None],
    periods: WantedPeriods | None = None,
) -> Iterator[_Read]:
    # Arrow's own way to allocate keeps what was freed: 30 MB more at the peak of a read.
    pa.set_memory_pool(pa.system_memory_pool())
    column = "" if person is None else person.column
    with (
        open_source(Address.of(data), folder=folder) as source,
        coder_of(domain, person_column=column, periods=periods) as coder,
    ):
        check_columns(source, coder.columns)
        progress = Progress(source.n_rows(), say=say)
        yield _Read(source, coder.of, coder.columns, coder.tally, progress)
