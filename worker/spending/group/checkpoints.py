"""When a worker writes its checkpoint, and where: copies of the public state, written aside.

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
from qserver.records.dataset import DatasetMeta
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
        """A new replica, from the worker's own checkpoint if any."""
        saved = found(self.own, meta, self.settings)
        return Replica(meta, self.settings, shown_only=False, saved=saved)

    def catch_up(self, replicas: Iterable[Replica]) -> None:
        """Add the last release to the algebra, and write a due checkpoint."""
        for replica in replicas:
            replica.engine.catch_up()
            self._keep(replica)

    def wait(self) -> None:
        """Wait for the running write."""
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
        # The saved state does not change any more, so the next job need not wait for the disk.
        folders = (self.own, shared_folder(self.settings.state_dir))
        write = partial(self._write, replica.saved, meta, folders)
        self._writing = Thread(target=write, name="checkpoint")
        self._writing.start()

    def _write(self, saved: Saved, meta: DatasetMeta, folders: Iterable[CheckpointFolder]) -> None:
        try:
            for folder in folders:
                kept(saved, folder, meta, self.settings)
        except Exception:
            # A start takes longer without it; nothing else depends on it.
            self.log.exception("the checkpoint of snapshot %s was not written", meta.snapshot)
