"""Spends, from taken jobs to their acknowledgement. Spend before reveal; fail closed.

Jobs are spent for in groups, with one flush for each step of a whole group. The journal decides
between this worker and one that takes over: worker/journal/sections.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TypeVar

from qserver.answering.checkpoint import CheckpointFolder
from qserver.config import Settings
from qserver.errors import (
    BudgetExhaustedError,
    JournalError,
    MeasurementError,
    QServerError,
    StaleVersionError,
    StoreBehindError,
    StoreCorruptError,
    StoreError,
)
from qserver.storage.charging import Lease
from qserver.storage.encoding.jobs import JobRecord
from qserver.storage.encoding.queued_requests import Request, Reservation
from qserver.storage.queue import Ended, Outcome, Taken, read_outcome
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store, TakenJob
from worker.constants import WORKER
from worker.journal.journal import Journal
from worker.journal.sections import Drawn, released_or_burnt
from worker.noise.randomness import Entropy, SystemEntropy
from worker.private.record_tables import Tables
from worker.spending.bookkeeper import Bookkeeper
from worker.spending.group.checkpoints import Checkpoints
from worker.spending.group.job_ends import Answers, failed
from worker.spending.group.plan import (
    Failed,
    OpenJob,
    PlanInHand,
    Spend,
    SpendGroup,
)
from worker.spending.group.planner import GroupPlanner, PlanningNeeds
from worker.spending.group.replicas import Replicas, Seals
from worker.spending.group.spends import Spends
from worker.spending.histories import Histories
from worker.spending.presence import while_held
from worker.spending.reservation import answer_spent
from worker.spending.slot import rest_until
from worker.spending.spans import JobSpans, traced
from worker.spending.trail import Trails

T = TypeVar("T")


@dataclass(frozen=True)
class Trusted:
    """The trusted side: tables by snapshot, journals by population, entropy, checkpoints, plans."""

    tables: MutableMapping[str, Tables]
    journals: Mapping[str, Journal]
    entropy: Entropy
    checkpoints: CheckpointFolder | None = None
    plans: CheckpointFolder | None = None


class Spender:
    """Brings jobs to their end, a group at a time; for one thread.

    Args:
        reader: the store's read side.
        writer: the store's spending side.
        trusted: the private data; of no use to whoever only settles.
        log: the worker's own log, which only the owner reads.
        clock: seconds, monotonic: how long draws take.
        wait_until: returns at a moment of the clock, to keep the publication slot.
        wall_clock: Unix time in seconds.
        planning_clock: seconds, monotonic: how long planning takes.
        in_hand: the plan that an earlier connection to the store left.
    """

    def __init__(
        self,
        *,
        reader: Store,
        writer: SpendingStore,
        trusted: Trusted,
        settings: Settings,
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
        wait_until: Callable[[float], None] = rest_until,
        wall_clock: Callable[[], float] = time.time,
        planning_clock: Callable[[], float] = time.monotonic,
        in_hand: PlanInHand | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._journals = trusted.journals
        self._log = log
        self._wall_clock = wall_clock
        self._planning_clock = planning_clock
        self._checkpoints = Checkpoints(settings, trusted.checkpoints, log)
        self._replicas = Replicas(reader, self._checkpoints)
        self._histories = Histories(writer, trusted.journals)
        self._seals = Seals(writer, trusted.journals, trusted.tables, log)
        self._bookkeeper = Bookkeeper(reader, trusted.journals, log)
        self._needs = PlanningNeeds(
            replicas=self._replicas,
            writer=writer,
            trails=Trails(reader, trusted.journals),
            bookkeeper=self._bookkeeper,
            tables=trusted.tables,
            log=log,
            wall_clock=lambda: self._wall_clock(),
            in_hand=in_hand or PlanInHand(settings, trusted.plans, log),
        )
        self._answers = Answers(self._replicas, writer)
        self._spans = JobSpans(slot_ms=settings.slot_ms, clock=wall_clock, log=log)
        self._spends = Spends(
            writer=writer,
            journals=trusted.journals,
            replicas=self._replicas,
            tables=trusted.tables,
            entropy=trusted.entropy,
            settings=settings,
            log=log,
            clock=clock,
            wait_until=wait_until,
        )

    @classmethod
    def without_data(
        cls,
        journals: Mapping[str, Journal],
        *,
        reader: Store,
        writer: SpendingStore,
        settings: Settings,
        log: logging.Logger,
    ) -> Spender:
        """A spender that can settle jobs, but has no private data to count or draw."""
        trusted = Trusted({}, journals, SystemEntropy())
        return cls(reader=reader, writer=writer, trusted=trusted, settings=settings, log=log)

    def settle(self, lease: Lease) -> None:
        """Finish or burn every open reservation. A store behind its journal is refused.

        Raises:
            StoreBehindError: the store was lost or restored.
            StoreCorruptError: a history is not the one that was released.
            JournalError: the journal cannot be read.
        """
        population = lease.population
        journal = self._journals[population]
        with journal.exclusive():
            journal.check_witness()
            version, last = journal.state.ledger_version, journal.state.last_reserved_job
        behind = self._writer.ledger_version(population) < version
        if behind or (last is not None and not self._writer.knows_reservation(population, last)):
            raise StoreBehindError(
                f"The store knows less than the journal of population {population}: it was lost "
                "or restored. Nothing is measured until its owner runs `qserver-worker restore`."
            )
        self._histories.chain(lease)
        self._seals.follow(lease)
        self.settle_open(lease)
        with while_held(self._writer, lease, StoreCorruptError):
            self._histories.check(population)

    def compare(self, population: str) -> None:
        """Compare the store's facts and jobs with the journal; the log names differences."""
        self._bookkeeper.compare(population)

    def settle_open(self, lease: Lease) -> None:
        """Finish or burn every open reservation of the store, as the journal decides.

        In the order of their charges: answers of one group are drawn from one another.
        """
        population = lease.population
        reserved = self._journals[population].state.reserved
        versions = {job: record.ledger_version for job, record in reserved.items()}
        # Jobs without a journal line were never drawn, so nothing follows them.
        jobs = self._writer.open_reservations(population)
        for job in sorted(jobs, key=lambda job: versions.get(job, inf)):
            self.settle_job(lease, job)

    def settle_job(self, lease: Lease, job: str) -> None:
        """End a reserved job, as the journal decides; does nothing for an ended one.

        Raises:
            StoreBehindError: the store does not know the reservation.
        """
        reservation = self._writer.reservation(lease.population, job)
        if reservation is None:
            raise StoreBehindError("An open reservation has no plan in the store.")
        taken = Taken(lease.population, job, "", reservation.request.dataset)
        try:
            ended = self._resume(lease, taken, reservation)
        except MeasurementError as exc:
            ended = failed(taken, exc)
        self._writer.acknowledge([ended])

    def catch_up(self) -> None:
        """Add the last releases to the replicas, and write checkpoints, between groups."""
        self._checkpoints.catch_up(self._replicas.values())

    def work(self, lease: Lease, taken: Sequence[Taken]) -> list[Taken]:
        """End jobs, under the lease: the first one, and as many more as fit.

        Returns:
            The others, in their order: for the next call.

        Raises:
            StoreError: the store failed or the lease passed on. The jobs stay open; the next
                holder of the lease settles their reservations, if there are any.
            JournalError: the journal cannot be written; the jobs stay open likewise.
        """
        begun_ns = self._spans.now_ns()
        # A job that waited for long may have been taken twice.
        taken = list({one.job: one for one in taken}.values())
        found = self._reader.taken_jobs(lease.population, [one.job for one in taken])
        taken = [replace(one, trace=job.trace) for one, job in zip(taken, found, strict=True)]
        opened = [self._opened(lease, one, job) for one, job in zip(taken, found, strict=True)]
        ended = [one for one in opened if isinstance(one, Ended)]
        left, jobs = list[Taken](), [one for one in opened if isinstance(one, OpenJob)]
        if jobs:
            more, left = self._spent(lease, jobs)
            ended += more
        self._writer.acknowledge(ended)
        self._spans.tell(ended, begun_ns=begun_ns)
        return left

    def _opened(self, lease: Lease, taken: Taken, found: TakenJob) -> OpenJob | Ended:
        """A job to decide, or the end of an earlier one."""
        return self._guarded(taken, lambda: self._looked_at(lease, taken, found))

    def _looked_at(self, lease: Lease, taken: Taken, found: TakenJob) -> OpenJob | Ended:
        try:
            record = JobRecord.from_fields(taken.job, found.fields)
        except StoreCorruptError:
            # Nobody knows any more what the job asked. Other jobs must not wait for it.
            raise MeasurementError from None
        if record.state in ("done", "failed"):
            return Ended(taken, Outcome("done", "", "", 0, 0))
        if "ending" in found.fields:
            return Ended(taken, read_outcome(found.fields["ending"], taken))
        if found.reservation is not None:
            return self._resume(lease, taken, Reservation.from_json(found.reservation))
        if taken.n_taken > WORKER.most_taken:
            # Several workers died over this job, and the next one would too.
            raise MeasurementError
        return OpenJob(taken, Request.from_json(record.request))

    def _guarded(self, taken: Taken, step: Callable[[], T]) -> T | Ended:
        """The result of a step of one job; the job's end if the step fails by itself."""
        try:
            return step()
        except (StoreError, JournalError, MemoryError):
            raise
        except QServerError as exc:
            return failed(taken, exc)
        except Exception:  # noqa: BLE001
            # The fault may depend on private data, so the public text is constant.
            self._log.exception("job %s failed", taken.job, extra=traced(taken))
            return failed(taken, MeasurementError())

    def _spent(self, lease: Lease, jobs: Sequence[OpenJob]) -> tuple[list[Ended], list[Taken]]:
        """The ends of the next group's jobs, and the jobs left."""
        try:
            group = self._reserved(lease, jobs)
            drawn = self._drawn(lease, group.spends)
            found = self._answered(group, drawn)
        except BaseException:
            self._needs.forget(lease.population)
            raise
        if len(drawn) < len(group.spends):
            self._needs.forget(lease.population)
        return found

    def _reserved(self, lease: Lease, jobs: Sequence[OpenJob]) -> SpendGroup:
        """The next group, planned and charged."""
        try:
            return self._charged(lease, jobs)
        except (StaleVersionError, BudgetExhaustedError):
            # The ledger moved on meanwhile, or all are refused for one: plan the first job anew.
            self._needs.forget(lease.population)
        left = tuple(job.taken for job in jobs[1:])
        try:
            return replace(self._charged(lease, jobs[:1]), left=left)
        except BudgetExhaustedError as exc:
            self._needs.forget(lease.population)
            return SpendGroup((Failed(jobs[0].taken, exc),), left)

    def _charged(self, lease: Lease, jobs: Sequence[OpenJob]) -> SpendGroup:
        end = self._planning_clock() + WORKER.group_planning_s
        planner = GroupPlanner(self._needs, lease, jobs)
        group = planner.group(is_over=lambda: self._planning_clock() >= end)
        if group.spends:
            self._spends.reserve(lease, group.spends)
        return group

    def _drawn(self, lease: Lease, spends: Sequence[Spend]) -> dict[str, Drawn]:
        """The drawn and published answers of charged jobs, by job; the others are burnt."""
        if not spends:
            return {}
        drawn = self._spends.draw(spends)
        if drawn and drawn[0].reservation.second is not None:
            drawn = self._spends.go_on(lease, spends[0], drawn[0])
        if drawn and not self._spends.release(lease, drawn):
            return {}  # Another worker took over and burnt them.
        if len(drawn) < len(spends):
            self._spends.burn(lease, [one.taken.job for one in spends[len(drawn) :]])
        outcomes = self._spends.publish(lease, drawn) if drawn else []
        return {
            one.reservation.job: one
            for one, outcome in zip(drawn, outcomes, strict=False)
            if outcome != "burnt"
        }

    def _answered(
        self, group: SpendGroup, drawn: Mapping[str, Drawn]
    ) -> tuple[list[Ended], list[Taken]]:
        """The ends of a group's jobs, each in the state after the jobs before it.

        Also the jobs that are left: among them those that history, with the answers that were
        drawn, does not give after all.
        """
        ended, left = list[Ended](), list[Taken]()
        for one in group.planned:
            found = self._guarded(one.taken, partial(self._answers.ending, one, drawn))
            if found is None:
                left.append(one.taken)
            else:
                ended.append(found)
        return ended, [*left, *group.left]

    def _resume(self, lease: Lease, taken: Taken, reservation: Reservation) -> Ended:
        """Finish a reservation from the journal, or burn it. Nothing is drawn again.

        Raises:
            MeasurementError: it is burnt.
        """
        released = released_or_burnt(self._journals[lease.population], reservation)
        if released is None:
            self._writer.burn(lease, taken.job)
            self._writer.await_durable()
            raise MeasurementError
        drawn = Drawn.of_journal(reservation, released)
        if self._spends.publish(lease, [drawn]) == ["burnt"]:
            raise MeasurementError
        request = reservation.request
        replica = self._replicas.get(request)
        replica.refresh(self._reader)
        answer = answer_spent(replica, drawn.reservation)
        return self._answers.succeeded(taken, request, answer, keep_s=0)
