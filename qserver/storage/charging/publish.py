"""Publish the released answers of a group of jobs in one atomic step, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from qserver.errors import StaleVersionError, StoreBehindError, StoreCorruptError
from qserver.records.audit_chain import Links, relinked
from qserver.storage.charging.lease import Lease, refuse_fenced
from qserver.storage.encoding.requests import Reservation, events_of
from qserver.storage.keys import Keys
from qserver.storage.server.connection import Scripts, StoreClient

PublishOutcome = Literal["published", "published before", "burnt"]
_OUTCOMES: dict[int, PublishOutcome] = {1: "published", 2: "published before", 3: "burnt"}
_CHANGED = "was changed in the store. Run `qserver-worker restore`."


@dataclass(frozen=True)
class Publishing:
    """A job's released answers, which follow the history that was planned on.

    Args:
        indices: lattice indices of each planned row and table.
        head: digest of the last event after this, as the journal has it; '' if it has none.
    """

    reservation: Reservation
    indices: Sequence[Sequence[int]]
    head: str = ""

    @property
    def snapshot(self) -> str:
        """The snapshot whose history they join."""
        return self.reservation.request.snapshot


def publish(
    client: StoreClient, scripts: Scripts, lease: Lease, group: Sequence[Publishing]
) -> list[PublishOutcome]:
    """Publish the group; see SpendingStore.publish."""
    keys = Keys(lease.population)
    heads = _heads(client, keys, group)
    args: list[str | int] = [lease.nonce, lease.fence]
    for one in group:
        before = heads[one.snapshot]
        after = relinked(events_of(one.reservation, one.indices), prev=before)
        _refuse_other(client, keys, one, after)
        heads[one.snapshot] = after.head
        job, n_history = one.reservation.job, one.reservation.n_history
        args += [job, n_history, one.snapshot, before, after.head, len(after.texts), *after.texts]
    replies = scripts.run(
        "publish",
        keys=[
            *(keys.lease, keys.ledger, keys.reservations, keys.open, keys.burnt),
            *(keys.history(one.snapshot) for one in group),
        ],
        args=args,
    )
    return [_outcome(int(code), one) for code, one in zip(replies, group, strict=False)]


def _heads(client: StoreClient, keys: Keys, group: Sequence[Publishing]) -> dict[str, str]:
    """The digest of each history's last event, by snapshot."""
    snapshots = list(dict.fromkeys(one.snapshot for one in group))
    found: Any = client.hmget(keys.ledger, [f"head:{snapshot}" for snapshot in snapshots])
    return {snapshot: str(head) for snapshot, head in zip(snapshots, found, strict=True)}


def _refuse_other(client: StoreClient, keys: Keys, one: Publishing, after: Links) -> None:
    """Refuse a history that the journal's answers do not follow, unless they are in it already."""
    job = one.reservation.job
    if one.head not in ("", after.head) and client.hexists(keys.open, job):
        raise StoreCorruptError(f"The history before job {job} {_CHANGED}")


def _outcome(code: int, one: Publishing) -> PublishOutcome:
    refuse_fenced(code)
    if code == 5:
        raise StoreBehindError("The store does not know a reservation that was made in it.")
    if code == 6:
        raise StaleVersionError("The history has another length than planned on.")
    if code == 7:
        raise StoreCorruptError(f"The head of snapshot {one.snapshot} {_CHANGED}")
    return _OUTCOMES[code]
