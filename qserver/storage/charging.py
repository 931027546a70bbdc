"""Charge a group of jobs, and publish their answers: the two scripts that need a lease.

Each is one atomic step: all jobs of the group are charged or none, and their answers appear in
their order. docs/protocol.md has the checks of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from qserver.errors import (
    BudgetExhaustedError,
    FencedError,
    StaleVersionError,
    StoreBehindError,
    StoreCorruptError,
    StoreError,
)
from qserver.records.digest_links import Links, digest_of, relinked
from qserver.storage.encoding.digests import PAID, sealed
from qserver.storage.encoding.jobs import reply_code
from qserver.storage.encoding.queued_requests import Reservation, events_of
from qserver.storage.keys import Keys
from qserver.storage.server.connection import Scripts, StoreClient


@dataclass(frozen=True)
class Lease:
    """The right to spend for one population: a secret nonce and a fence that only grows."""

    population: str
    nonce: str
    fence: int


def refuse_fenced(code: int) -> None:
    """Raise FencedError if a script's reply says that the lease passed on."""
    if code == 4:
        raise FencedError("The lease passed to another worker.")


@dataclass(frozen=True)
class Charging:
    """A job to charge.

    Args:
        charges: the ledger's new lines as JSON texts, each linked to the one before.
    """

    reservation: Reservation
    charges: Sequence[str]

    @property
    def snapshot(self) -> str:
        """The snapshot that pays."""
        return self.reservation.request.snapshot

    def arguments(self, *, again: bool) -> list[str | int | bytes]:
        """The job's part of the script's arguments.

        Args:
            again: the guard was checked when the job was charged first.
        """
        reservation, after = self.reservation, self.reservation.after
        return [
            reservation.job,
            self.snapshot,
            after.spent_nano,
            after.share_nano,
            # The script holds it against the guard.
            after.share_nano if again else after.lost_nano,
            reservation.to_json(),
            digest_of(self.charges[-1] if self.charges else None),
            len(reservation.paid),
            len(self.charges),
            *(sealed(text, name=PAID) for text in reservation.paid),
            *self.charges,
        ]


def reserve(
    scripts: Scripts,
    lease: Lease,
    group: Sequence[Charging],
    *,
    ledger_version: int,
    again: bool,
) -> int:
    """Charge the group; see SpendingStore.reserve."""
    keys = Keys(lease.population)
    reply = scripts.run(
        "reserve",
        keys=[
            *(keys.lease, keys.ledger, keys.charges, keys.reservations, keys.open),
            *(keys.paid(one.snapshot) for one in group),
        ],
        args=[
            *(lease.nonce, lease.fence, ledger_version),
            *(argument for one in group for argument in one.arguments(again=again)),
        ],
    )
    code = reply_code(reply)
    if code == 0:
        price = max(one.reservation.price_nano for one in group)
        raise BudgetExhaustedError(price_nano=price, remaining_nano=0)
    refuse_fenced(code)
    if code in (2, 3):
        raise StaleVersionError("The ledger moved on since the plan was made.")
    if code != 1:
        raise StoreError("The store refused a malformed reservation.")
    return int(reply[1])


PublishOutcome = Literal["published", "published before", "burnt"]
_OUTCOMES: dict[int, PublishOutcome] = {1: "published", 2: "published before", 3: "burnt"}
_CHANGED = "was changed in the store. Run `qserver-worker restore`."


@dataclass(frozen=True)
class Publishing:
    """A job's released answers, which extend the history that the plan knew.

    Args:
        indices: lattice indices of each planned row and table.
        head: digest of the last event after this, as the journal has it; '' if it has none.
    """

    reservation: Reservation
    indices: Sequence[Sequence[int]]
    head: str = ""

    @property
    def snapshot(self) -> str:
        """The snapshot whose history they extend."""
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
    """Refuse a history that the journal's answers do not follow, unless it has them already."""
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
