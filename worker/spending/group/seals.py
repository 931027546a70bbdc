"""Sealed periods at the start of each hold: the store and the tables follow the journal.

The journal decides what is sealed. An append that died after its line is finished here, so no
question finds a period that the worker has no data of.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping

from qserver.errors import PrivateDataError, StoreCorruptError
from qserver.records.dataset import DatasetMeta
from qserver.storage.charging import Lease
from qserver.storage.encoding.sealed import ADVICE
from qserver.storage.spend import SpendingStore
from worker.journal.journal import Journal
from worker.private.growing import GrowingTable
from worker.private.tables import Tables


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
