"""Charge a group of jobs in one atomic step: all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qserver.errors import BudgetExhaustedError, StaleVersionError, StoreError
from qserver.records.audit_chain import digest_of
from qserver.storage.charging.lease import Lease, refuse_fenced
from qserver.storage.encoding.records import reply_code
from qserver.storage.encoding.requests import Reservation
from qserver.storage.encoding.sealed import PAID, sealed
from qserver.storage.keys import Keys
from qserver.storage.server.connection import Scripts


@dataclass(frozen=True)
class Charging:
    """A job that is to be charged.

    Args:
        charges: the ledger's new lines as JSON texts, each linked to the one before.
    """

    reservation: Reservation
    charges: Sequence[str]

    @property
    def snapshot(self) -> str:
        """The snapshot that is charged."""
        return self.reservation.request.snapshot

    def arguments(self, *, again: bool) -> list[str | int | bytes]:
        """The job's part of the script's arguments, in its order.

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
