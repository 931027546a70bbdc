"""Plan a group of jobs, each on the state that the spends before it will leave.

A plan depends on rows, alphas, charges and paid questions, never on an answer. So the next job is
planned on a copy of the history with placeholders for the answers that are not drawn yet, and comes
to the plan that it would have come to one by one. Nothing is charged here, and all of it is public.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from qserver.answering.decide import Free, decide
from qserver.answering.replica import Replica
from qserver.errors import (
    AtMostError,
    BooksError,
    FencedError,
    JournalError,
    MeasurementError,
    QServerError,
    StoreBehindError,
    StoreError,
    UnanswerableError,
)
from qserver.planning.planner import Plan
from qserver.query.question import ModelAsked
from qserver.storage.charging import Lease
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.spend import SpendingStore
from worker.private.present_content import GrowingTable
from worker.private.record_tables import RemoteTables, Tables
from worker.spending.answers_in_force import Live
from worker.spending.bookkeeper import Bookkeeper
from worker.spending.group.plan import (
    Decided,
    Failed,
    FromHistory,
    OpenJob,
    PlanInHand,
    Spend,
    SpendGroup,
    has_room,
)
from worker.spending.group.replicas import Replicas
from worker.spending.group.spends import Rehearsed, rehearse
from worker.spending.measure import check_law
from worker.spending.presence import while_held
from worker.spending.reservation import charges_of, reservation_of
from worker.spending.slot import slots_of_job
from worker.spending.trail import ChargePayment, Trails
from worker.spending.two_stages import SampledTables, first_tables


@dataclass(frozen=True)
class PlanningNeeds:
    """The needs of planning from the worker.

    Args:
        in_hand: outlives a connection to the store.
        wall_clock: Unix time in seconds.
    """

    replicas: Replicas
    writer: SpendingStore
    trails: Trails
    bookkeeper: Bookkeeper
    tables: Mapping[str, Tables]
    log: logging.Logger
    wall_clock: Callable[[], float]
    in_hand: PlanInHand

    def forget(self, population: str) -> None:
        """Forget the effects of charges that were not made."""
        self.replicas.forget(population)
        self.trails.forget(population)


class GroupPlanner:
    """One group in the making; use it under the lease, which reads the state.

    Args:
        jobs: in the order taken, of one population.

    Raises:
        StoreError: the store failed, or changed meanwhile.
    """

    def __init__(self, needs: PlanningNeeds, lease: Lease, jobs: Sequence[OpenJob]) -> None:
        self._needs = needs
        self._lease = lease
        self._jobs = jobs
        self._present = needs.replicas.of_group(job.request for job in jobs)
        # By snapshot: the replica with placeholders for the spends of this group.
        self._ahead: dict[str, Replica] = {}
        self._planned: list[Decided] = []
        needs.bookkeeper.begin(lease.population)

    def group(self, *, is_over: Callable[[], bool]) -> SpendGroup:
        """The first job, and as many more as fit.

        Args:
            is_over: whether planning has taken long enough.

        Raises:
            StoreError, JournalError: a store or journal fails; drop what was planned.
        """
        for i, job in enumerate(self._jobs):
            planned = None if i and (is_over() or self._ends_before(job)) else self._plan(job)
            if planned is None:
                left = tuple(job.taken for job in self._jobs[i:])
                return SpendGroup(tuple(self._planned), left)
            self._planned.append(planned)
        return SpendGroup(tuple(self._planned))

    def _ends_before(self, job: OpenJob) -> bool:
        """Whether the first job, or this one, is a group of its own.

        A model may depend on answers, as may what follows it. A job that was taken before may be
        what ended that worker.
        """
        return any(
            isinstance(one.request.asked, ModelAsked) or one.taken.n_taken > 1
            for one in (self._jobs[0], job)
        )

    def _plan(self, job: OpenJob) -> Decided | None:
        """The decision on one job; None for a spend that no longer fits."""
        try:
            with while_held(self._needs.writer, self._lease, BooksError, StoreBehindError):
                found = self._decided(job)
        except (FencedError, StoreError, JournalError, MemoryError):
            raise
        except QServerError as exc:
            is_blank = job.request.snapshot in self._ahead
            return Failed(job.taken, exc, job.request if is_blank else None)
        except Exception:
            # The fault may depend on private data, so the public text is constant.
            self._needs.log.exception("job %s failed", job.taken.job)
            return Failed(job.taken, MeasurementError())
        if isinstance(found, _Tried):
            return self._followed(found)
        return found

    def _decided(self, job: OpenJob) -> FromHistory | _Tried | None:
        request, snapshot = job.request, job.request.snapshot
        present = self._present[snapshot]
        if isinstance(present, QServerError):
            raise present
        self._needs.replicas.get(request)  # refuses another domain
        replica = self._ahead.get(snapshot, present)
        replica.stand_at(present.present)
        in_hand, is_blank = self._needs.in_hand, replica is not present
        known = None if is_blank else in_hand.found(job.taken.job, request, replica)
        if known is not None:
            return self._tried(job, replica, known)
        begun = in_hand.clock()
        found = decide(replica, request.to_plan)
        if isinstance(found, Free):
            replica.keep(found.estimators)
            is_final = replica is present and request.tightened is None
            return FromHistory(job.taken, request, found if is_final else None, present.present)
        if request.left_nano is not None:
            found = _within(found, replica, request, request.left_nano)
        plan = reservation_of(found, job=job.taken.job, request=request, replica=replica)
        if not is_blank:
            in_hand.keep(plan, replica, took_s=in_hand.clock() - begun)
        return self._tried(job, replica, plan)

    def _tried(self, job: OpenJob, replica: Replica, reservation: Reservation) -> _Tried | None:
        """The spend of a plan, checked and rehearsed; None if the group has no room."""
        table = self._needs.tables.get(job.request.snapshot)
        is_sampled = reservation.sampled is not None
        if table is None or (is_sampled and not isinstance(table, SampledTables)):
            # The private data are missing or changed, or they cannot be sampled. Refuse before
            # anything is charged.
            raise MeasurementError
        counted = [r.row for r in reservation.rows]
        counted += [t.partition.inside for t in reservation.tables]
        if isinstance(table, GrowingTable) and not all(map(table.holds, counted)):
            # A question not clipped to the sealed periods would be answered falsely.
            raise MeasurementError
        check_law(reservation.planned, replica.meta.law)
        Live(replica.measurements).check(reservation.planned)
        n_slots = slots_of_job(reservation, replica.meta)
        spends = [one for one in self._planned if isinstance(one, Spend)]
        if not has_room(spends, reservation, n_slots):
            return None
        remote_s = 0.0
        if isinstance(table, RemoteTables):
            if spends:
                return None  # Counts elsewhere take long: they are a group of their own.
            table.ready()
            remote_s = table.slot_s * len(counted)
        rehearsed = self._rehearsed(reservation, replica)
        request, charges = job.request, charges_of(reservation)
        at = int(self._needs.wall_clock())
        share = reservation.after.share_nano
        payment = ChargePayment(request.by, request.snapshot, charges, at, share)
        entries = self._needs.trails.entries(self._lease.population, payment)
        nominal = sum(t.alpha_nano for t in first_tables(reservation, replica.meta.domain))
        books = self._needs.bookkeeper.judge(
            self._lease.population, reservation, replica.meta, nominal_nano=nominal
        )
        version = replica.present.budget.version
        spend = Spend(job.taken, reservation, entries, nominal, books, n_slots, version, remote_s)
        return _Tried(spend, rehearsed)

    def _rehearsed(self, reservation: Reservation, replica: Replica) -> Rehearsed:
        """The plan's rehearsal, from public facts alone, before its charge.

        Raises:
            UnanswerableError: it gives no answer.
        """
        try:
            return rehearse(reservation, replica)
        except MemoryError:
            raise
        except Exception as exc:
            self._needs.log.exception("the plan of job %s gives no answer", reservation.job)
            raise UnanswerableError from exc

    def _followed(self, tried: _Tried) -> Spend:
        """The spend, after which the next jobs are planned."""
        spend, after = tried.spend, tried.rehearsed.after
        reservation, snapshot = spend.reservation, spend.request.snapshot
        for present in self._present.values():
            if isinstance(present, Replica):
                present.follow_charge(
                    spend.entries.texts,
                    snapshot=snapshot,
                    after=reservation.after,
                    paid=reservation.paid,
                )
        after.keep(tried.rehearsed.outcome.estimators)
        self._ahead[snapshot] = after
        self._needs.trails.expect(self._lease.population, spend.entries)
        self._needs.bookkeeper.expect(self._lease.population)
        return spend


def _within(plan: Plan, replica: Replica, request: Request, left_nano: int) -> Plan:
    """The plan if the bound on the charge pays it, else the question's own plan.

    Of what refines an answer the question is written down.

    Raises:
        AtMostError: it pays neither.
    """
    price, asked = replica.price_nano(plan), request.to_plan
    if price > left_nano and not isinstance(asked, ModelAsked):
        alone = decide(replica, asked.with_measure("only_this"))
        if not isinstance(alone, Free):
            plan, price = alone, replica.price_nano(alone)
    if price > left_nano:
        raise AtMostError(price_nano=price, remaining_nano=left_nano)
    return plan if request.tightened is None else replace(plan, paid=())


@dataclass(frozen=True)
class _Tried:
    """A tried spend and its outcome."""

    spend: Spend
    rehearsed: Rehearsed
