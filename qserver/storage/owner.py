"""What only the owner does to a store: replace a snapshot, raise a limit. Each is one script.

The worker says in which order journal, registry and store are written:
worker/owner/rotate.py, worker/owner/top_up.py.
"""

from __future__ import annotations

import json
import time
from typing import Any

from qserver.errors import ConfigError, FencedError, StaleVersionError, StoreBehindError
from qserver.records.dataset import DatasetMeta
from qserver.storage.audit import AuditLog
from qserver.storage.keys import AUDIT, Keys
from qserver.storage.server.connection import Scripts, StoreClient


class OwnerOperations:
    """The owner's changes of a store; on the connection of the spending side."""

    def __init__(self, client: StoreClient, log: AuditLog) -> None:
        self._client = client
        self._scripts = Scripts(client)
        self._log = log

    def rotate(
        self,
        old: DatasetMeta,
        new: DatasetMeta,
        *,
        nonce: str,
        fence: int,
        limit_nano: int,
        public_row: str = "",
    ) -> None:
        """Replace a dataset's snapshot, under the population's lease. Idempotent.

        Args:
            old, new: facts of the snapshots; of one dataset and population.
            nonce, fence: of the lease.
            limit_nano: the population's, for the audit log.

        Raises:
            StaleVersionError: the snapshot is not `old` any more, or a reservation is open.
            FencedError: the lease passed on.
        """
        names = _rotated(new)
        args: list[str | int] = [
            nonce,
            fence,
            new.name,
            old.snapshot,
            new.snapshot,
            new.to_json(),
            public_row,
            new.people.cohort,
            new.people.lineage,
            "" if new.guard_nano is None else new.guard_nano,
        ]
        code = self._log.append(
            {"kind": "dataset attached", "at": int(time.time()), "limit": limit_nano}
            | {"meta": json.loads(new.to_json()), "replaces": old.snapshot},
            lambda n, entry: self._scripts.run("rotate", keys=names, args=[*args, n, entry]),
        )
        if code == 4:
            raise FencedError("The lease passed to another worker.")
        if code in (0, 3):
            raise StaleVersionError("The dataset moved on meanwhile. Rotate it again.")

    def raise_limit(self, population: str, *, limit_nano: int) -> bool:
        """Raise a population's limit; whether it was lower before.

        Raises:
            ConfigError: the limit is higher already.
            StoreBehindError: the store has no such ledger.
        """
        keys = Keys(population)
        before: Any = self._client.hget(keys.ledger, "limit")
        before_nano = int(before or 0)
        names = [keys.ledger, AUDIT]
        code = self._log.append(
            {"kind": "limit raised", "at": int(time.time())}
            | {"population": population, "limit": limit_nano, "before": before_nano},
            lambda n, entry: self._scripts.run("top_up", keys=names, args=[limit_nano, n, entry]),
        )
        if code == 0:
            raise ConfigError("limit", "be more than the store's limit")
        if code == 3:
            raise StoreBehindError("The store has no ledger of this population. Restore it first.")
        return code == 1


def _rotated(new: DatasetMeta) -> list[str]:
    """Keys of what a rotation reads and writes, in the order of its script."""
    keys = Keys(new.population)
    return [
        keys.lease,
        keys.ledger,
        keys.open,
        keys.dataset(new.name),
        keys.earlier(new.name),
        keys.snapshots,
        keys.history(new.snapshot),
        AUDIT,
    ]
