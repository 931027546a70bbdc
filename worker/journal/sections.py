"""The sections of a spend in the journal, and the answers that they write and read.

They decide between two workers of one population. Under the journal's lock, one of two things
happens first. Either the released answers are written, and the holder of the lease publishes them.
Or the reservation is burnt, and nothing is ever drawn for it.

`JournalHistories` are what they wrote: every released answer as the store must have it.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from qserver.errors import FencedError, JournalError
from qserver.records.charge import on_domain
from qserver.records.codec import as_, plain, read
from qserver.records.digest_links import relinked
from qserver.records.plan import PlannedTable
from qserver.storage.encoding.queued_requests import Reservation, events_of
from worker.journal.journal import CLOSED, Journal
from worker.journal.records import (
    Adopted,
    Attached,
    Burnt,
    ChargeLine,
    Decided,
    Released,
    ReleasedRow,
    Reserved,
)
from worker.journal.state import first_events


@dataclass(frozen=True, repr=False)
class Drawn:
    """The released answers of a job.

    Args:
        reservation: with the alphas of the draw, where a sample decided them, and with the tables
            that the first answers decided.
        indices: lattice indices per planned row and table.
        n_decided: how many of the last tables the first answers decided.
    """

    reservation: Reservation
    indices: Sequence[Sequence[int]]
    n_decided: int = 0

    @classmethod
    def of_journal(cls, reservation: Reservation, released: Released) -> Drawn:
        """The answers of a job in the journal.

        Raises:
            JournalError: it lacks an alpha that a sample decided.
        """
        indices = [row.indices for row in released.rows]
        if reservation.second is not None:
            by = on_domain(reservation.request.sizes)
            texts = [row.table for row in released.rows if row.table]
            found = tuple(read(PlannedTable, json.loads(text), by) for text in texts)
            return cls(reservation, indices).going_on(found, [])
        if reservation.sampled is None:
            return cls(reservation, indices)
        if any(row.alpha_nano == 0 for row in released.rows):
            raise JournalError("The journal lacks the alphas of tables that it has answers of.")
        tables = tuple(
            replace(table, alpha_nano=row.alpha_nano)
            for table, row in zip(reservation.tables, released.rows, strict=True)
        )
        return cls(replace(reservation, tables=tables), indices)

    def to_journal(self) -> Released:
        """The answers as a journal record, with alphas only if a sample decided them."""
        decided = self.reservation.sampled is not None
        rows = tuple(
            ReleasedRow(planned.key, tuple(found), planned.alpha_nano if decided else 0, table)
            for planned, found, table in zip(
                self.reservation.planned, self.indices, self._tables(), strict=True
            )
        )
        return Released(self.reservation.job, rows)

    def going_on(self, tables: Sequence[PlannedTable], indices: Sequence[Sequence[int]]) -> Drawn:
        """These answers, then those of the tables that they decided."""
        whole = replace(self.reservation, tables=(*self.reservation.tables, *tables))
        return Drawn(whole, (*self.indices, *indices), len(tables))

    def _tables(self) -> list[str]:
        """The text of each row and table that the first answers decided; '' for others."""
        planned = self.reservation.planned
        n_first = len(planned) - self.n_decided
        return [""] * n_first + [json.dumps(plain(table)) for table in planned[n_first:]]


@dataclass(frozen=True)
class Replay:
    """The store's inputs when a job was charged; a restored store gets them again.

    Args:
        charges: the ledger's lines, byte for byte: each names the digest of the one before.
        changes: the audit log's entries since the charge before, likewise.
        nominal_nano: what all tables of a secret sample cost a record of it, in 1e-9 epsilon; 0
            without a sample, and in older lines.
    """

    reservation: Reservation = field(metadata=as_("plan"))
    charges: tuple[str, ...]
    changes: tuple[str, ...]
    nominal_nano: int = 0

    def to_json(self) -> str:
        """The replay as JSON text."""
        return json.dumps(plain(self, {Reservation: Reservation.to_json}))

    @classmethod
    def from_json(cls, text: str) -> Replay:
        """The replay that `to_json` wrote."""
        return read(cls, json.loads(text), {Reservation: Reservation.from_json})


@dataclass(frozen=True)
class Charged:
    """A charged job.

    Args:
        replay: everything that the store was given.
        ledger_version: the store's version after the charge.
        charges_digest: of the job's last entry in the trail of charges.
        books: what the books said of the plan.
    """

    replay: Replay
    ledger_version: int
    charges_digest: str
    books: str = ""

    def to_journal(self) -> Reserved:
        """The charge as a record of the journal."""
        reservation = self.replay.reservation
        return Reserved(
            job=reservation.job,
            ledger_version=self.ledger_version,
            spent_nano_after=reservation.after.spent_nano,
            charges=tuple(_charge_lines(reservation)),
            charges_digest=self.charges_digest,
            replay=self.replay.to_json(),
            books=self.books,
        )


def write_reserved(journal: Journal, charged: Sequence[Charged]) -> None:
    """Write the charges of a group of jobs, all in one line.

    Raises:
        FencedError: another worker took over meanwhile, and burnt a reservation.
    """
    records = [one.to_journal() for one in charged]
    with journal.exclusive():
        if any(record.job in journal.state.burnt for record in records):
            raise FencedError("The lease passed to another worker.")
        journal.append_all(records)


def _charge_lines(reservation: Reservation) -> list[ChargeLine]:
    """A line for each row and table, by its rise of alpha; for two stages one each.

    One is for all tables of a second purchase.
    """
    sampled, second = reservation.sampled, reservation.second
    if sampled is None:
        more = [] if second is None else [ChargeLine("tables", second.tables_nano)]
        lines = [ChargeLine(planned.key, planned.charge_nano) for planned in reservation.planned]
        return [*lines, *more]
    return [ChargeLine("sample", sampled.sample_nano), ChargeLine("tables", sampled.tables_nano)]


def check_witness(journal: Journal) -> bool:
    """As `Journal.check_room` and `Journal.check_witness`, in a section for them.

    Raises:
        JournalError: the population is closed, or as these do.
    """
    with journal.exclusive():
        if journal.state.closed:
            raise JournalError(CLOSED)
        journal.check_room()
        return journal.check_witness()


def attest(journal: Journal) -> bool:
    """As `Journal.attest`, in a section for it."""
    with journal.exclusive():
        return journal.attest()


def write_decided(journal: Journal, first: Drawn, tables: Sequence[PlannedTable]) -> bool:
    """Write the answers of a job's first tables and the tables that they decide.

    Returns:
        False if another worker ended the job meanwhile: then nothing is written, or drawn.
    """
    found = first.to_journal()
    record = Decided(found.job, found.rows, tuple(json.dumps(plain(table)) for table in tables))
    with journal.exclusive():
        if record.job not in journal.state.open_jobs:
            return False
        journal.append(record)
    return True


def write_released(journal: Journal, drawn: Sequence[Drawn]) -> bool:
    """Write the released answers of a group of jobs, all in one line.

    Returns:
        False if another worker ended one meanwhile: then nothing is written.
    """
    with journal.exclusive():
        if any(one.reservation.job not in journal.state.open_jobs for one in drawn):
            return False
        journal.append_all(_released(journal, drawn))
    return True


def _released(journal: Journal, drawn: Sequence[Drawn]) -> list[Released]:
    """The answers as records that name the heads of their histories."""
    heads, released = dict(journal.state.heads), list[Released]()
    for one in drawn:
        snapshot, record = one.reservation.request.snapshot, one.to_journal()
        before = heads.get(snapshot)
        if before is not None:
            events = events_of(one.reservation, one.indices)
            heads[snapshot] = relinked(events, prev=before).head
            record = replace(record, chained=snapshot, head=heads[snapshot])
        released.append(record)
    return released


def released_or_burnt(journal: Journal, reservation: Reservation) -> Released | None:
    """The answers of an earlier job; None if burnt, which this call may do.

    A job that died between its two purchases ends with the answers of the first.
    """
    job = reservation.job
    with journal.exclusive():
        decided = journal.state.decided.get(job)
        if decided is not None:
            indices = [row.indices for row in decided.rows]
            journal.append_all(_released(journal, [Drawn(reservation, indices)]))
        released = journal.state.released.get(job)
        if released is None:
            _burn(journal, [job])
    return released


def write_burnt(journal: Journal, jobs: Sequence[str]) -> None:
    """Write that the answers of jobs are never drawn, unless a job has ended already."""
    with journal.exclusive():
        _burn(journal, jobs)


def _burn(journal: Journal, jobs: Sequence[str]) -> None:
    ended = journal.state.burnt | journal.state.released.keys()
    journal.append_all([Burnt(job) for job in jobs if job not in ended])


ATTACHED = "attach"
"""In place of a job: the event that came with the snapshot."""


@dataclass(frozen=True)
class JobEvents:
    """The events of one job, or of the attach, as JSON texts without links."""

    job: str
    texts: Sequence[str]


@dataclass(frozen=True)
class JournalHistories:
    """The released answers of a population, by snapshot, in the order of their release.

    Args:
        is_whole: the journal has the plan of every answer. Older lines lack plans, and a journal
            that began on the owner's word lacks what was released before.
    """

    by_snapshot: Mapping[str, Sequence[JobEvents]]
    is_whole: bool

    def texts(self, snapshot: str, *, jobs: Container[str]) -> list[str]:
        """The unlinked events of a snapshot: its own, and those of these jobs."""
        found = self.by_snapshot.get(snapshot, ())
        return [t for one in found if one.job == ATTACHED or one.job in jobs for t in one.texts]


def read_histories(journal: Journal) -> JournalHistories:
    """The histories of a journal, read from its file; within a section."""
    found: dict[str, list[JobEvents]] = {}
    plans: dict[str, Reservation] = {}
    is_whole = True
    for record in journal.records():
        if isinstance(record, Attached):
            found[record.snapshot] = [JobEvents(ATTACHED, first_events(record).texts)]
        elif isinstance(record, Adopted):
            is_whole = False
        elif isinstance(record, Reserved) and record.replay:
            plans[record.job] = Replay.from_json(record.replay).reservation
        elif isinstance(record, Released):
            plan = plans.pop(record.job, None)
            is_whole = is_whole and plan is not None
            if plan is not None:
                drawn = Drawn.of_journal(plan, record)
                texts = events_of(drawn.reservation, drawn.indices)
                found.setdefault(plan.request.snapshot, []).append(JobEvents(record.job, texts))
    return JournalHistories(found, is_whole)
