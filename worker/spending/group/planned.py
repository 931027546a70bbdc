"""A group of jobs that are spent for together: what is planned for each, and how many fit.

A crash before a group's answers are in the journal burns all its charges, so a group is bounded by
number and price. Its draws share one slot, so it is bounded by that as well. All of it is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from qserver.answering.decide import Free
from qserver.errors import QServerError
from qserver.storage.encoding.requests import Request, Reservation
from qserver.storage.queue import Taken
from qserver.storage.standings import Stamp
from worker.constants import WORKER
from worker.spending.trail import TrailEntries


@dataclass(frozen=True)
class OpenJob:
    """A taken job that nothing was decided about yet."""

    taken: Taken
    request: Request


@dataclass(frozen=True)
class Failed:
    """A job that ends with an error.

    Args:
        refused: of a refusal on answers that are not drawn yet: what history gives instead is told
            once they are.
    """

    taken: Taken
    error: QServerError
    refused: Request | None = None


@dataclass(frozen=True)
class FromHistory:
    """A job that history answers, once the spends before it are published.

    Args:
        found: the answer; None where spends before it may change it.
        stamp: the state that it is answered in.
    """

    taken: Taken
    request: Request
    found: Free | None
    stamp: Stamp


@dataclass(frozen=True)
class Spend:
    """A job that is to be charged, drawn and published.

    Args:
        entries: its lines in the trail of charges.
        nominal_nano: what all tables of a secret sample cost one record of it; 0 without one.
        books: what the books said of the plan.
        n_slots: its part of the group's slot, as `slot.slots_of_job` gives it.
        ledger_version: that it was planned on.
        remote_s: what its counts elsewhere are given beside that, in seconds; see `RemoteTables`.
    """

    taken: Taken
    reservation: Reservation
    entries: TrailEntries
    nominal_nano: int
    books: str
    n_slots: Fraction
    ledger_version: int
    remote_s: float = 0.0

    @property
    def request(self) -> Request:
        """What was asked."""
        return self.reservation.request


Decided = Failed | FromHistory | Spend


@dataclass(frozen=True)
class SpendGroup:
    """Decided jobs in the order taken, and those that are left for the next group."""

    planned: tuple[Decided, ...]
    left: tuple[Taken, ...] = ()

    @property
    def spends(self) -> tuple[Spend, ...]:
        """The jobs that are charged, in the order of their draws."""
        return tuple(one for one in self.planned if isinstance(one, Spend))


def has_room(spends: Sequence[Spend], new: Reservation, n_slots: Fraction) -> bool:
    """Whether a group with these spends may have one more; the first always fits.

    Args:
        new: its reservation.
        n_slots: its part of the group's slot.
    """
    if not spends:
        return True
    if any(spend.reservation.sampled is not None for spend in spends) or new.sampled is not None:
        # A sample decides alphas, which later plans would depend on.
        return False
    price = new.price_nano + sum(spend.reservation.price_nano for spend in spends)
    slots = n_slots + sum(spend.n_slots for spend in spends)
    most = new.before.limit_nano // WORKER.group_price_share
    return price <= most and slots <= WORKER.group_slots
