"""A worker's copies of the public state."""

from __future__ import annotations

from collections.abc import Iterable

from qserver.answering.replica import Replica
from qserver.errors import (
    InputError,
    NotFoundError,
    QServerError,
    SnapshotReplacedError,
    StaleVersionError,
    StoreError,
)
from qserver.storage.encoding.requests import Request
from qserver.storage.store import Store
from worker.spending.checkpoints import Checkpoints


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
