"""What a store still knows after it was restored, and letting it know a job again."""

from __future__ import annotations

import json
from typing import Any

from qserver.records.dataset import DatasetMeta
from qserver.storage.encoding.requests import Reservation
from qserver.storage.keys import Keys
from qserver.storage.server.connection import Scripts, StoreClient
from qserver.storage.store import Budget


class StoreMemory:
    """The store as a recovery sees it; shares the spending side's connection."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._scripts = Scripts(client)

    def readmit(self, reservation: Reservation, *, population: str) -> None:
        """Let the store know a job that it forgot, as one that runs; for a replay."""
        request = reservation.request
        self._scripts.run(
            "readmit",
            keys=[Keys(population).job(reservation.job)],
            args=[request.dataset, request.to_json()],
        )

    def budget(self, population: str) -> Budget:
        """Limit, spent and version of the ledger, which must be there."""
        found: Any = self._client.hmget(Keys(population).ledger, ["limit", "spent", "version"])
        return Budget(*map(int, found))

    def knows_snapshot(self, population: str, snapshot: str) -> bool:
        """Whether the ledger has a share for this snapshot: it was attached once."""
        return bool(self._client.hexists(Keys(population).ledger, f"spent:{snapshot}"))

    def has_snapshot(self, meta: DatasetMeta) -> bool:
        """Whether the dataset's present snapshot is the one of `meta`."""
        ledger = Keys(meta.population).ledger
        return self._client.hget(ledger, f"snapshot:{meta.name}") == meta.snapshot

    def public_row(self, population: str, snapshot: str) -> str:
        """The snapshot's exact public row as attach wrote it, or '' where there is none."""
        first: Any = self._client.lindex(Keys(population).history(snapshot), 0)
        is_public = first is not None and json.loads(first)["job"] == "attach"
        return str(first) if is_public else ""
