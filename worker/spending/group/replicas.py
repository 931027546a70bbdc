"""A worker's copies of the public state, and the periods sealed before a hold.

Sealed periods at the start of each hold: the store and the tables follow the journal.

The journal decides what is sealed. An append that died after its line is finished here, so no
question finds a period that the worker has no data of.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, MutableMapping

from qserver.answering.replica import Replica
from qserver.errors import (
    InputError,
    NotFoundError,
    PrivateDataError,
    QServerError,
    SnapshotReplacedError,
    StaleVersionError,
    StoreCorruptError,
    StoreError,
)
from qserver.records.dataset import DatasetMeta
from qserver.storage.charging import Lease
from qserver.storage.encoding.digests import ADVICE
from qserver.storage.encoding.queued_requests import Request
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.journal.journal import Journal
from worker.private.present_content import GrowingTable
from worker.private.record_tables import Tables
from worker.spending.group.checkpoints import Checkpoints


class Replicas:
    """A replica of each snapshot that was asked about; for one thread."""

    def __init__(self, reader: Store, checkpoints: Checkpoints) -> None:
        self._reader = reader
        self._checkpoints = checkpoints
        self._found: dict[str, Replica] = {}

    def get(self, request: Request) -> Replica:
        """The replica of a request's snapshot, perhaps not yet read.

        Raises:
            NotFoundError, SnapshotReplacedError: the dataset was detached, or has another snapshot.
            InputError: the request is on another domain.
        """
        found = self._found.get(request.snapshot)
        if found is None:
            meta = self._reader.meta(request.dataset)
            if meta.snapshot != request.snapshot:
                raise SnapshotReplacedError
            found = self._found[request.snapshot] = self._checkpoints.replica(meta)
        if found.meta.domain.sizes != request.sizes:
            raise InputError("query", "be on the dataset's domain")
        return found

    def refreshed(self, request: Request) -> Replica:
        """The present replica; otherwise as `get`."""
        replica = self.get(request)
        try:
            replica.refresh(self._reader)
        except NotFoundError:
            # Detached or replaced: the dataset's facts tell which.
            self._found.pop(request.snapshot)
            replica = self.get(request)
            replica.refresh(self._reader)
        return replica

    def of_group(self, requests: Iterable[Request]) -> dict[str, Replica | QServerError]:
        """The present replica of each snapshot asked about, or the reason for none.

        Raises:
            StaleVersionError: the ledger changed while it was read.
            StoreError: the store failed.
        """
        found: dict[str, Replica | QServerError] = {}
        for request in requests:
            if request.snapshot in found:
                continue
            try:
                found[request.snapshot] = self.refreshed(request)
            except StoreError:
                raise
            except QServerError as exc:
                found[request.snapshot] = exc
        read = [one for one in found.values() if isinstance(one, Replica)]
        if len({replica.present.budget.version for replica in read}) > 1:
            raise StaleVersionError("The ledger moved on while it was read.")
        return found

    def values(self) -> list[Replica]:
        """All replicas."""
        return list(self._found.values())

    def forget(self, population: str) -> None:
        """Read the population's snapshots again: they followed charges that were not made."""
        self._found = {k: r for k, r in self._found.items() if r.meta.population != population}


class Seals:
    """The sealed periods of a worker's populations; use it under the lease.

    Args:
        tables: the private data by snapshot. A table whose parts cannot be read is taken out, so
            that questions on it fail before anything is charged.
    """

    def __init__(
        self,
        writer: SpendingStore,
        journals: Mapping[str, Journal],
        tables: MutableMapping[str, Tables],
        log: logging.Logger,
    ) -> None:
        self._writer = writer
        self._journals = journals
        self._tables = tables
        self._log = log

    def follow(self, lease: Lease) -> None:
        """Bring the store's watermarks and the tables up to the journal.

        Raises:
            StoreCorruptError: the store has more periods sealed or retired than the journal.
            StaleVersionError, FencedError: the store or the lease moved on.
        """
        state, moved = self._journals[lease.population].state, False
        for snapshot, parts in state.parts.items():
            meta = DatasetMeta.from_json(str(state.by_snapshot[snapshot].details["meta"]))
            if self._writer.owner.has_snapshot(meta):
                moved = self._move(meta, parts[-1].stop, lease) or moved
                moved = self._retire(meta, state.n_retired(snapshot), lease) or moved
                self._read(lease.population, snapshot)
        if moved:
            self._writer.await_durable()

    def _move(self, meta: DatasetMeta, n_sealed: int, lease: Lease) -> bool:
        known = self._writer.owner.n_sealed(meta)
        if known > n_sealed:
            raise StoreCorruptError(
                f"The store has periods of dataset {meta.name} sealed that its journal lacks. "
                f"{ADVICE}"
            )
        if known < n_sealed:
            self._writer.owner.seal(meta, n_sealed, lease=lease)
        return known < n_sealed

    def _retire(self, meta: DatasetMeta, n_retired: int, lease: Lease) -> bool:
        known = self._writer.owner.n_retired(meta)
        if known > n_retired:
            raise StoreCorruptError(
                f"The store has periods of dataset {meta.name} retired that its journal has not. "
                f"{ADVICE}"
            )
        if known < n_retired:
            self._writer.owner.retire(meta, n_retired, lease=lease)
        return known < n_retired

    def _read(self, population: str, snapshot: str) -> None:
        table = self._tables.get(snapshot)
        if not isinstance(table, GrowingTable):
            return
        try:
            state = self._journals[population].state
            table.follow(state.parts[snapshot], state.retired.get(snapshot))
        except PrivateDataError:
            self._log.exception("the new parts of snapshot %s cannot be read", snapshot)
            del self._tables[snapshot]
