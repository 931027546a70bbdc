"""A worker's copies of the public state, and their checkpoints.

Checkpoints are read when a replica is opened, and written while jobs go on. The worker prices by
its replicas. So it goes on from a checkpoint only if the seal is of its own key. HTTP processes go
on from a copy, which decides nothing but what they answer from history.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from threading import Thread

from qserver.answering.checkpoint import CheckpointFolder, Saved, found, kept, shared_folder
from qserver.answering.replica import Replica
from qserver.config import Settings
from qserver.errors import (
    InputError,
    NotFoundError,
    QServerError,
    SnapshotReplacedError,
    StaleVersionError,
    StoreError,
)
from qserver.records.dataset import DatasetMeta
from qserver.storage.encoding.requests import Request
from qserver.storage.store import Store
from worker.constants import WORKER


@dataclass
class Checkpoints:
    """Reads and writes checkpoints; for one thread.

    Args:
        own: the worker's own; None to read and write none.
    """

    settings: Settings
    own: CheckpointFolder | None
    log: logging.Logger
    _kept_at: dict[str, int] = field(default_factory=dict)
    _writing: Thread | None = None

    def replica(self, meta: DatasetMeta) -> Replica:
        """A new replica, from the worker's own checkpoint if there is one."""
        saved = found(self.own, meta, self.settings)
        return Replica(meta, self.settings, shown_only=False, saved=saved)

    def catch_up(self, replicas: Iterable[Replica]) -> None:
        """Take the last release into the algebra, and write what is due."""
        for replica in replicas:
            replica.engine.catch_up()
            self._keep(replica)

    def wait(self) -> None:
        """Wait until what is being written is written."""
        if self._writing is not None:
            self._writing.join()

    def _keep(self, replica: Replica) -> None:
        """Begin to write a checkpoint if enough has come since the last one."""
        meta, n_entries = replica.meta, replica.n_entries
        since = n_entries - self._kept_at.get(meta.snapshot, replica.n_resumed)
        if self.own is None or since < WORKER.checkpoint_entries or not replica.is_chained:
            return
        if self._writing is not None and self._writing.is_alive():
            return
        self._kept_at[meta.snapshot] = n_entries
        # What is saved does not change any more, so the next job need not wait for the disk.
        folders = (self.own, shared_folder(self.settings.state_dir))
        write = partial(self._write, replica.saved, meta, folders)
        self._writing = Thread(target=write, name="checkpoint")
        self._writing.start()

    def _write(self, saved: Saved, meta: DatasetMeta, folders: Iterable[CheckpointFolder]) -> None:
        try:
            for folder in folders:
                kept(saved, folder, meta, self.settings)
        except Exception:
            # A start takes longer without it, and nothing else depends on it.
            self.log.exception("the checkpoint of snapshot %s was not written", meta.snapshot)


class Replicas:
    """A replica of each snapshot that was asked about; for one thread."""

    def __init__(self, reader: Store, checkpoints: Checkpoints) -> None:
        self._reader = reader
        self._checkpoints = checkpoints
        self._found: dict[str, Replica] = {}

    def get(self, request: Request) -> Replica:
        """The replica of a request's snapshot, perhaps not read yet.

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
        """The replica as of now; otherwise as `get`."""
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
        """Per snapshot that is asked about its replica as of now, or why there is none.

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
        """Read the population's snapshots anew: they followed charges that were not made."""
        self._found = {k: r for k, r in self._found.items() if r.meta.population != population}
