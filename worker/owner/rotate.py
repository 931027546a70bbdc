"""Rotate: replace a dataset's data. The old history is frozen and stays readable.

The order is journal, registry, store, under the population's lease. The store decides: its one
script makes the new snapshot the dataset's. Until then the registry holds both snapshots, so a
worker that starts meanwhile has the right data in either case.

A correction: all sealed periods of a dataset anew, for the snapshot that takes its place.

A sealed period never changes, so a rotation is the only way to correct one. Periods whose records
are erased stay so: the new snapshot begins with the first one that is kept.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from qserver.config import Settings
from qserver.errors import (
    ConfigError,
    JournalError,
    StaleVersionError,
    StoreCorruptError,
)
from qserver.query.domain_file import domain_from_document
from qserver.records.charge import epsilon_text
from qserver.records.dataset import DatasetMeta
from qserver.storage.charging import Lease
from qserver.storage.spend import SpendingStore
from qserver.storage.standings import Stamp
from qserver.storage.store import Store
from worker.books.journal_lines import BookFaultError
from worker.journal.records import Retired, Sealed
from worker.owner.arrivals.part import Arrived, Arriving, read_part
from worker.owner.arrivals.sealing import JournalledParts, present_entry, state_of, wait_for_minute
from worker.owner.changes import claims_in_force
from worker.owner.checks.capacity import check_capacity
from worker.owner.checks.population import check_store_remembers, holding, snapshots_so_far
from worker.owner.same_data import NewData, ask_for_other_people
from worker.owner.snapshot_line import attached_record, demand_of, public_row
from worker.private.people import other_type
from worker.private.present_content import read_where_it_stays
from worker.private.registry import Registry, RegistryEntry
from worker.private.snapshot import empty_snapshot
from worker.private.spark_place import SparkCodes
from worker.sources.address import Address
from worker.spending.bookkeeper import Bookkeeper, meta_differences
from worker.spending.spend import Spender


def cost_of(meta: DatasetMeta, stamp: Stamp) -> str:
    """The cost of a correction, in words, from public facts alone. Retired periods are not read."""
    share, limit = epsilon_text(stamp.spent_snapshot_nano), epsilon_text(stamp.budget.limit_nano)
    n_kept = (stamp.n_sealed or 0) - stamp.n_retired
    return (
        f"This takes all {n_kept} sealed periods of {meta.name} anew. What is known "
        f"freezes, and asking it again costs again: {share} epsilon was spent on it so far. That "
        "stays spent for its people, and what is asked of the new data adds to it; "
        f"{epsilon_text(stamp.remaining_nano)} of {limit} are left."
    )


@dataclass(frozen=True, repr=False)
class Correction:
    """The records of all kept periods, as one part."""

    now: JournalledParts
    arrived: Arrived

    @classmethod
    def read(
        cls,
        data: Path | Address,
        now: JournalledParts,
        entry: RegistryEntry,
        *,
        key: bytes,
        folder: Path,
        empty: bool,
        as_it_is: bool,
        say: Callable[[str], None],
    ) -> Correction:
        """Read the new data; raises as `read_part`.

        Raises:
            ConfigError: no sealed period has records that could be corrected.
        """
        if now.n_sealed == now.n_retired or now.meta.growth is None:
            raise ConfigError("name", "be a dataset with a sealed period that is kept")
        arriving = Arriving(
            now.meta.domain,
            now.meta.growth,
            entry.person_rule,
            key,
            (),
            now.n_retired,
            now.n_sealed,
            empty,
            person_type=entry.person_type,
            as_it_is=as_it_is,
        )
        return cls(now, read_part(data, arriving, folder=folder, say=say))

    def lines(self, meta: DatasetMeta, *, key: bytes) -> list[Sealed | Retired]:
        """The journal's lines of the new snapshot's periods; their one file is the part's."""
        part = self.arrived.part
        whole = replace(part, start=0)
        fingerprint = whole.fingerprint(meta.domain, key=key, previous="")
        sealed = Sealed(meta.snapshot, 0, part.stop, whole.file, fingerprint)
        if not part.start:
            return [sealed]
        kept = part.fingerprint(meta.domain, key=key, previous=fingerprint)
        return [sealed, Retired(meta.snapshot, part.start, part.stop, part.file, kept)]


@dataclass(frozen=True)
class RotateRequest(NewData):
    """The options of a rotation.

    Domain, neighbours, records per person, guard and what is measured by default stay as they are.

    Args:
        data: the new file, or another source.
        disjoint_people: the owner's word that nobody in the new file is in any file that the
            dataset has or had. Without it nothing is declared, whatever the old snapshot had.
        without_demand: plan as if nothing had been asked of the old data.
        correct: the owner's word, where data arrive over time, that the new data hold all sealed
            periods anew.
    """

    data: Path | Address
    disjoint_people: bool = False
    without_demand: bool = False
    correct: bool = False


def rotate(
    request: RotateRequest,
    *,
    settings: Settings,
    registry: Registry,
    progress: Callable[[str], None],
    log: logging.Logger,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> DatasetMeta:
    """Replace the dataset's data by the new file; returns its new public facts.

    Raises:
        PrivateDataError: the file cannot be read as the domain says.
        NotFoundError: there is no such dataset.
        StoreBehindError: the journal has charges that the store lacks.
        StoreCorruptError: the store's facts, which the new data take over, are not the journal's.
        StaleVersionError: somebody else rotated the dataset meanwhile.
        ConfigError: another population has the same data, or the records pass the capacity.
        BusyError: a worker held the population all the time.
    """
    rotation = _Rotation(request, settings, registry, log)
    with ExitStack() as held:
        if rotation.old.growth is not None:
            # No append or retirement runs meanwhile.
            entry = present_entry(request.name, settings, registry)
            held.enter_context(registry.parts(entry).appending())
        return _rotated(rotation, progress, pause, clock)


def _rotated(
    rotation: _Rotation,
    progress: Callable[[str], None],
    pause: Callable[[float], None],
    clock: Callable[[], float],
) -> DatasetMeta:
    progress("reading and converting the data")
    rotation.read(progress)
    if rotation.corrects:
        wait_for_minute(progress, pause, clock)
    progress("waiting for the population")
    with rotation.holding(pause) as (lease, spender):
        rotation.settle(lease, spender)
        progress("registering the new snapshot")
        return rotation.commit(lease, progress)


class _Rotation:
    """One rotation, step by step."""

    def __init__(
        self, request: RotateRequest, settings: Settings, registry: Registry, log: logging.Logger
    ) -> None:
        self._request = request
        self._settings = settings
        self._registry = registry
        self._log = log
        self._reader = Store.open(settings, role="worker-reader")
        self._writer = SpendingStore.open(settings)
        self.old = self._reader.meta(request.name)
        self._journal = registry.journal(self.old.population, create=False)
        self._correction: Correction | None = None

    def read(self, say: Callable[[str], None]) -> None:
        """Read the new file; nothing is written yet."""
        old, new_id = self.old, secrets.token_hex(8)
        earlier = (
            snapshots_so_far(old, self._journal, self._reader)
            if self._request.disjoint_people
            else []
        )
        stamp = self._reader.stamp(old)
        self.new = replace(
            old,
            snapshot=new_id,
            disjoint_from=tuple(earlier),
            measure=stamp.measure,
            expected=stamp.expected,
        )
        entry = self._registry.entry(old.name)
        if old.growth is not None:
            self._read_correction(entry, stamp, say)
            return
        address = Address.of(self._request.data)
        on_spark = None if entry.spark is None else SparkCodes.of_plain(entry.spark)
        self._snapshot = read_where_it_stays(
            address,
            domain_from_document(entry.domain),
            None if on_spark is None else on_spark.place,
            key=self._registry.key(),
            folder=self._registry.seals,
            person=entry.person_rule,
            say=say,
            empty=False,
            as_it_is=self._request.as_it_is or entry.as_it_is,
        )
        for line in other_type(entry.person_type or "", self._snapshot.person_type):
            say(line)
        if on_spark is not None:
            say(f"the old codes stay in {on_spark.path}; delete them once this is done")
        check_capacity(self.new.capacity, self._snapshot.n_records)
        self._entry = replace(
            entry,
            data=address.shown,
            snapshot=new_id,
            fingerprint=self._snapshot.fingerprint,
            sealed=True,
            content=None,
            spark=None if self._snapshot.spark is None else self._snapshot.spark.to_plain(),
            person_type=self._snapshot.person_type,
        )

    def _read_correction(
        self, entry: RegistryEntry, stamp: Stamp, say: Callable[[str], None]
    ) -> None:
        """Read all sealed periods again, after telling the owner the cost."""
        cost, key = cost_of(self.old, stamp), self._registry.key()
        if not self._request.correct:
            raise ConfigError("correct", "be given where data arrive over time", hint=cost)
        say(cost)
        self._correction = Correction.read(
            self._request.data,
            state_of(self._journal, entry),
            entry,
            key=key,
            folder=self._registry.seals,
            empty=self._request.empty,
            as_it_is=self._request.as_it_is or entry.as_it_is,
            say=say,
        )
        content = self._correction.arrived.content
        self._snapshot = empty_snapshot(self.old.domain, content=content, key=key)
        self._entry = replace(
            entry,
            snapshot=self.new.snapshot,
            fingerprint=self._snapshot.fingerprint,
            person_type=self._correction.arrived.person_type,
        )

    @property
    def corrects(self) -> bool:
        """Whether the data arrive over time."""
        return self._correction is not None

    def holding(
        self, pause: Callable[[float], None]
    ) -> AbstractContextManager[tuple[Lease, Spender]]:
        """The held population; BusyError if a worker holds it for too long."""
        return holding(
            self.old.population,
            self._journal,
            reader=self._reader,
            writer=self._writer,
            settings=self._settings,
            log=self._log,
            pause=pause,
        )

    def settle(self, lease: Lease, spender: Spender) -> None:
        """End every charged job, since its snapshot is not served again.

        Raises:
            StaleVersionError: somebody else rotated the dataset meanwhile.
        """
        if self._reader.meta(self.old.name).snapshot != self.old.snapshot:
            raise StaleVersionError("The dataset moved on meanwhile. Rotate it again.")
        # The store decides about a rotation that was left half done.
        self._registry.settle(self.old.name, snapshot=self.old.snapshot)
        self._registry.sweep_parts()
        spender.settle(lease)
        for taken in self._writer.queue.waiting(lease.population):
            if self._writer.knows_reservation(lease.population, taken.job):
                spender.work(lease, [taken])
        with self._journal.exclusive() as journal:
            self.new = replace(self.new, claims=claims_in_force(self.old, journal.state))
        self._check_facts()
        # Nothing is paid on the old snapshot from here on.
        if not self._request.without_demand:
            self.new = replace(self.new, demand_of=demand_of(self.old, self._reader))

    def _check_facts(self) -> None:
        """Raise StoreCorruptError if the facts for the new data differ from the journal's."""
        population, journal = self.old.population, self._journal
        books = Bookkeeper(self._reader, {population: journal}, self._log)
        try:
            found = books.faults(population)
        except BookFaultError as exc:
            found = [str(exc)]
        with journal.exclusive():
            found = meta_differences(self.old, journal.state) + found
        if found:
            raise StoreCorruptError(
                f"The store and the journal of population {population} differ: "
                f"{'; '.join(dict.fromkeys(found))}. Nothing was replaced. Stop the workers, run "
                "`qserver-worker restore`, and rotate again."
            )

    def commit(self, lease: Lease, progress: Callable[[str], None]) -> DatasetMeta:
        """Change journal, registry, store: in this order, each durable before the next."""
        if self._correction is None:
            return self._commit(lease, progress)
        before = self._registry.parts(self._registry.entry(self.old.name))
        # Held before the journal names the snapshot, so that nobody sweeps its parts.
        with self._registry.parts(self._entry).appending():
            found = self._commit(lease, progress)
        before.delete()
        return found

    def _commit(self, lease: Lease, progress: Callable[[str], None]) -> DatasetMeta:
        old, new = self.old, self.new
        with self._registry.comparing():
            others = ask_for_other_people(
                self._snapshot.content,
                fingerprints=(self._snapshot.fingerprint, self._snapshot.in_order),
                population=old.population,
                registry=self._registry,
                other_people=self._request.same_data_other_people,
                say=progress,
            )
            self._write_down(others)
        self._registry.put_next(self._entry, self._snapshot.seal)
        self._writer.owner.rotate(
            old,
            new,
            nonce=lease.nonce,
            fence=lease.fence,
            limit_nano=self._writer.limit_nano(old.population),
            public_row=public_row(new, self._snapshot),
            n_sealed=self._correction.now.n_sealed if self._correction else 0,
            n_retired=self._correction.now.n_retired if self._correction else 0,
        )
        self._writer.await_durable()
        self._registry.settle(new.name, snapshot=new.snapshot)
        return new

    def _write_down(self, others: Sequence[str]) -> None:
        """Journal the new snapshot."""
        with self._journal.exclusive():
            check_store_remembers(self._writer, self._journal, self.old.population)
            limit = self._journal.state.limit_nano
            if limit is None:
                raise JournalError("The journal has no limit yet. Attach a dataset first.")
            self._journal.append(
                attached_record(
                    self.new,
                    self._snapshot,
                    limit_nano=limit,
                    replaces=self.old.snapshot,
                    other_people_than=others,
                )
            )
            if self._correction is not None:
                self._registry.parts(self._entry).write(self._correction.arrived.part)
                for line in self._correction.lines(self.new, key=self._registry.key()):
                    self._journal.append(line)
