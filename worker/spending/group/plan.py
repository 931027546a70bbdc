"""A group of jobs with a common spend: the plan of each, and how many fit.

A crash before a group's answers are in the journal burns all its charges, so a group is bounded by
number and price. Its draws share one slot, so it is bounded by that as well. All of it is public.

The last plan of each snapshot: what a store or a worker that dies meanwhile need not cost.

A plan follows from what is asked and from the public state alone, so it is as good once both are
found again as they were. It is planned for as long as a worker lives that is killed every few
seconds, so a plan that took long is on disk, too, sealed as checkpoints are. Whoever goes on with
it checks, rehearses and judges it like one that was just made.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from qserver.answering.checkpoint import CheckpointError, CheckpointFolder, facts_of
from qserver.answering.decide import Free
from qserver.answering.replica import Replica
from qserver.config import Settings
from qserver.errors import QServerError
from qserver.ledger.population import PopulationLoss
from qserver.records.state import State
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.queue import Taken
from qserver.storage.standings import Stamp
from worker.constants import WORKER
from worker.spending.trail import TrailEntries


@dataclass(frozen=True)
class OpenJob:
    """A taken, undecided job."""

    taken: Taken
    request: Request


@dataclass(frozen=True)
class Failed:
    """The end of a job with an error.

    Args:
        refused: of a refusal on answers that are not drawn yet: what history gives instead is told
            once they are.
    """

    taken: Taken
    error: QServerError
    refused: Request | None = None


@dataclass(frozen=True)
class FromHistory:
    """A job that history answers once the spends before it are published.

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
    """A job to charge, draw and publish.

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
        """The request behind it."""
        return self.reservation.request


Decided = Failed | FromHistory | Spend


@dataclass(frozen=True)
class SpendGroup:
    """Decided jobs in the order taken, and jobs left for the next group."""

    planned: tuple[Decided, ...]
    left: tuple[Taken, ...] = ()

    @property
    def spends(self) -> tuple[Spend, ...]:
        """The charged jobs, in the order of their draws."""
        return tuple(one for one in self.planned if isinstance(one, Spend))


def has_room(spends: Sequence[Spend], new: Reservation, n_slots: Fraction) -> bool:
    """Whether a group with these spends has room for one more; the first always fits.

    Args:
        new: its reservation.
        n_slots: its part of the group's slot.
    """
    if not spends:
        return True
    if any(one.sampled or one.second for one in (new, *(s.reservation for s in spends))):
        # A sample decides alphas, or answers tables, which later plans would depend on.
        return False
    price = new.price_nano + sum(spend.reservation.price_nano for spend in spends)
    slots = n_slots + sum(spend.n_slots for spend in spends)
    most = new.before.limit_nano // WORKER.group_price_share
    return price <= most and slots <= WORKER.group_slots


@dataclass
class PlanInHand:
    """The last plan of each snapshot, and its state.

    Args:
        folder: of plans on disk, sealed by the worker's own key; None keeps none there.
        clock: seconds, monotonic: how long planning takes.
    """

    settings: Settings
    folder: CheckpointFolder | None = None
    log: logging.Logger = field(default_factory=lambda: logging.getLogger(__name__))
    clock: Callable[[], float] = time.monotonic
    # By snapshot: a digest of the plan's inputs, and the plan; None without one.
    _kept: dict[str, tuple[str, Reservation] | None] = field(default_factory=dict)

    def found(self, job: str, request: Request, replica: Replica) -> Reservation | None:
        """The plan of this request on this state, for this job, if in hand."""
        if not replica.is_chained:
            return None
        snapshot = replica.meta.snapshot
        if snapshot not in self._kept:
            self._kept[snapshot] = self._read(replica)
        kept = self._kept[snapshot]
        if kept is None or kept[0] != _place(request, replica):
            return None
        return replace(kept[1], job=job)

    def keep(self, plan: Reservation, replica: Replica, *, took_s: float) -> None:
        """Keep a new plan in place of the last one of its snapshot."""
        if not replica.is_chained:
            return
        place = _place(plan.request, replica)
        self._kept[replica.meta.snapshot] = place, plan
        if self.folder is None or took_s < WORKER.long_plan_s:
            return
        of = facts_of(replica.meta, self.settings)
        state = State({"of": of, "place": place, "plan": plan.to_json()})
        try:
            self.folder.keep(replica.meta.snapshot, place[:32], state)
        except OSError:
            self.log.warning("a plan was not written: a worker that dies now plans anew")

    def _read(self, replica: Replica) -> tuple[str, Reservation] | None:
        """The plan that an earlier worker left on disk."""
        try:
            state = None if self.folder is None else self.folder.load(replica.meta.snapshot)
            if state is None or state.head["of"] != facts_of(replica.meta, self.settings):
                return None
            return str(state.head["place"]), Reservation.from_json(state.head["plan"])
        except (CheckpointError, QServerError, KeyError, TypeError, ValueError) as exc:
            self.log.warning("the plan of an earlier worker is ignored: %s", exc)
            return None


def _place(request: Request, replica: Replica) -> str:
    """A digest of all inputs of a plan besides code and facts."""
    cursor, present = replica.position
    found = (cursor, replace(present, loss=PopulationLoss({})), request.to_json())
    return hashlib.sha256(repr(found).encode()).hexdigest()
