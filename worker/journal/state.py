"""The sum of a journal's records, and the rules for the next record."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import NoReturn

from qserver.errors import JournalError
from qserver.records.digest_links import Links, relinked
from worker.journal.records import (
    Adopted,
    Attached,
    Burnt,
    ClaimsSet,
    Decided,
    DeclaredDisjoint,
    ExpectedSet,
    Group,
    HistoryChained,
    LaterWord,
    LimitRaised,
    MeasureSet,
    Opened,
    Record,
    Released,
    Reserved,
    Restored,
    Retired,
    Sealed,
)


class JournalState:
    """The sum of the records so far; it grows by one record at a time.

    Attributes:
        limit_nano, spent_nano: of the population, in 1e-9 epsilon; no limit before a dataset.
        ledger_version: the newest one, 0 before any charge. A store with less has lost charges.
        charges_digest: of the store's charges up to the last reservation, or ''.
        attached: the newest snapshot by dataset.
        reserved, released, burnt: by job; a reservation stays after release or burning.
        decided: by open job, the answers of its first tables, where they decided others.
        heads: by snapshot, the digest of the last event of its history. A snapshot is missing
            whose history was released to, or adopted, without a chain.
        by_snapshot: every snapshot, as it was attached.
        measures: by snapshot, what its owner ever chose to be measured by default since.
        expected: by snapshot, how many questions its owner ever said to expect since.
        claims: by snapshot, the claims that its owner last set, as JSON.
        parts: by snapshot, the sealed parts of its data in order; each begins where the one before
            ends. A snapshot is missing whose data do not arrive over time.
        retired: by snapshot, up to where its records are erased.
        adopted_version: the ledger version of a store that was trusted when the journal began.
        open_jobs: reserved and neither released nor burnt, oldest first.
        closed: more may have been drawn than the journal has, so nothing is drawn for ever.

    The rules: `Opened` comes first, and once. There is one limit, which only `LimitRaised` moves.
    Ledger versions rise; spending neither falls nor passes the limit. A job is reserved at most
    once, and then released or burnt, never both. `Adopted` comes before any reservation.
    """

    def __init__(self) -> None:
        self.population: str | None = None
        self.limit_nano: int | None = None
        self.spent_nano = 0
        self.ledger_version = 0
        self.charges_digest = ""
        self.attached: dict[str, Attached] = {}
        self.reserved: dict[str, Reserved] = {}
        self.released: dict[str, Released] = {}
        self.burnt: set[str] = set()
        self.decided: dict[str, Decided] = {}
        self.open_jobs: dict[str, None] = {}  # a set that keeps the order of reservation
        self.heads: dict[str, str] = {}
        self.snapshots: dict[str, list[str]] = {}
        self.declared: set[tuple[str, str]] = set()
        self.by_snapshot: dict[str, Attached] = {}
        self.measures: dict[str, set[str]] = {}
        self.expected: dict[str, set[int]] = {}
        self.claims: dict[str, str] = {}
        self.parts: dict[str, list[Sealed]] = {}
        self.retired: dict[str, Retired] = {}
        self.adopted_version: int | None = None
        self.closed = False

    @property
    def delta(self) -> Fraction | None:
        """At which the population's rho is shown as epsilon; None under pure privacy."""
        return next((one.delta for one in self.by_snapshot.values()), None)

    @property
    def last_reserved_job(self) -> str | None:
        """The job of the newest reservation. A store without it was lost or restored."""
        return next(reversed(self.reserved), None)

    def check(self, record: Record) -> None:
        """Pass if `record` may come next; JournalError if it breaks a rule."""
        if (self.population is None) != isinstance(record, Opened):
            _refuse("`Opened` must be the first record, and only the first")
        match record:
            case Attached():
                self._check_attached(record)
            case Reserved():
                self._check_reserved(record)
            case Group():
                self._check_group(record)
            case Decided() | Released() | Burnt():
                self._check_drawn(record)
            case Adopted() if self.reserved or self.ledger_version:
                _refuse("what is adopted must come before any reservation")
            case Sealed() | Retired():
                self._check_periods(record)
            case LimitRaised() if record.old_limit_nano != self.limit_nano:
                _refuse("`old_limit_nano` must equal the limit before")

    def apply(self, record: Record) -> None:
        """Add `record`.

        Raises:
            JournalError: as `check`; the state stays as it was.
        """
        self.check(record)
        for one in record.records if isinstance(record, Group) else (record,):
            self._apply(one)

    def _apply(self, record: Record) -> None:
        match record:
            case Opened():
                self.population = record.population
            case Attached():
                self.limit_nano = record.limit_nano
                self.attached[record.dataset] = record
                self.heads[record.snapshot] = first_events(record).head
                self.by_snapshot[record.snapshot] = record
                self.snapshots.setdefault(record.dataset, []).append(record.snapshot)
                self.declared |= record.disjoint_pairs
            case Reserved():
                self.spent_nano = record.spent_nano_after
                self.ledger_version = record.ledger_version
                self.charges_digest = record.charges_digest or self.charges_digest
                # Whole plans would fill the memory; a recovery reads them from the file.
                self.reserved[record.job] = replace(record, replay="")
                self.open_jobs[record.job] = None
            case HistoryChained():
                self._follow(record.snapshot, record.head)
            case Decided() | Released() | Burnt():
                self._apply_drawn(record)
            case Sealed() | Retired():
                self._apply_periods(record)
            case Restored() | Adopted():
                self._apply_origin(record)
            case _ if isinstance(record, LaterWord):
                self._apply_word(record)

    def _apply_drawn(self, record: Decided | Released | Burnt) -> None:
        """Add the draw of a job, or that it is never drawn."""
        if isinstance(record, Decided):
            self.decided[record.job] = record
            return
        self.decided.pop(record.job, None)
        self.open_jobs.pop(record.job, None)
        if isinstance(record, Burnt):
            self.burnt.add(record.job)
        else:
            self.released[record.job] = record
            self._follow(record.chained, record.head)

    def _apply_origin(self, record: Restored | Adopted) -> None:
        """Add that this journal was restored, or that it stands for a lost one."""
        if isinstance(record, Restored):
            self.closed = self.closed or record.word == "unknown"
            return
        self.heads.clear()
        self.spent_nano = record.spent_nano
        self.ledger_version = self.adopted_version = record.ledger_version

    def _apply_periods(self, record: Sealed | Retired) -> None:
        """Add a change of a snapshot's periods."""
        if isinstance(record, Sealed):
            self.parts.setdefault(record.snapshot, []).append(record)
        else:
            self.retired[record.snapshot] = record

    def _apply_word(self, record: LaterWord) -> None:
        """Add the owner's later word on attached data."""
        match record:
            case LimitRaised():
                self.limit_nano = record.new_limit_nano
            case DeclaredDisjoint():
                self.declared.update(record.pairs)
            case MeasureSet():
                self.measures.setdefault(record.snapshot, set()).add(record.measure)
            case ExpectedSet():
                self.expected.setdefault(record.snapshot, set()).add(record.expected)
            case ClaimsSet():
                self.claims[record.snapshot] = record.claims

    def n_sealed(self, snapshot: str) -> int:
        """The number of sealed periods of a snapshot."""
        parts = self.parts.get(snapshot)
        return parts[-1].stop if parts else 0

    def n_retired(self, snapshot: str) -> int:
        """The number of retired periods of a snapshot."""
        retired = self.retired.get(snapshot)
        return retired.before if retired else 0

    def _follow(self, snapshot: str, head: str) -> None:
        if snapshot:
            self.heads[snapshot] = head
        else:
            # An older line does not say whose history it joined.
            self.heads.clear()

    def _check_drawn(self, record: Decided | Released | Burnt) -> None:
        """A job is decided once, while open; then it is released or burnt."""
        if isinstance(record, Burnt):
            if record.job in self.released or record.job in self.burnt:
                _refuse("a burnt job must be neither released nor burnt before")
        elif record.job not in self.open_jobs:
            _refuse("a released job must be reserved, and neither released nor burnt")
        elif isinstance(record, Decided) and record.job in self.decided:
            _refuse("what a job buys second must be decided once")

    def _check_attached(self, record: Attached) -> None:
        if record.snapshot in self.by_snapshot:
            _refuse("a snapshot must be attached once")
        if self.limit_nano not in (None, record.limit_nano):
            _refuse("`limit_nano` must equal the population's limit")

    def _check_periods(self, record: Sealed | Retired) -> None:
        if isinstance(record, Retired):
            self._check_retired(record)
            return
        if record.snapshot not in self.by_snapshot:
            _refuse("a sealed part must be of an attached snapshot")
        if record.start != self.n_sealed(record.snapshot):
            _refuse("a sealed part must begin where the one before it ends")

    def _check_retired(self, record: Retired) -> None:
        if record.before <= self.n_retired(record.snapshot):
            _refuse("more periods must be retired than before")
        parts = self.parts.get(record.snapshot, ())
        if not any(part.start < record.before <= part.stop == record.stop for part in parts):
            _refuse("`stop` must be the end of the sealed part with the last retired period")

    def _check_group(self, group: Group) -> None:
        """Each record may come next; each charge may come after the previous one."""
        for record in group.records:
            self.check(record)
        charges = [record for record in group.records if isinstance(record, Reserved)]
        for one, other in pairwise(charges):
            if one.ledger_version >= other.ledger_version:
                _refuse("the charges of a group must be in the order of their ledger versions")
            if one.spent_nano_after > other.spent_nano_after:
                _refuse("`spent_nano_after` must not fall in a group")

    def _check_reserved(self, record: Reserved) -> None:
        if self.closed:
            _refuse("nothing is charged once a backup was restored and nobody knows what followed")
        if record.job in self.reserved or record.job in self.burnt:
            _refuse("a job must be reserved once, and never after it is burnt")
        if record.ledger_version <= self.ledger_version:
            _refuse("`ledger_version` must exceed the last one")
        if record.spent_nano_after < self.spent_nano:
            _refuse("`spent_nano_after` must not fall")
        if self.limit_nano is None or record.spent_nano_after > self.limit_nano:
            _refuse("`spent_nano_after` must be at most the limit")


def first_events(record: Attached) -> Links:
    """The history of a snapshot at its attach: its exact public row, or nothing."""
    public_row = str(record.details.get("public_row", ""))
    return relinked([public_row] if public_row else [])


def _refuse(rule: str) -> NoReturn:
    raise JournalError(f"The journal refuses the record: {rule}.")
