"""One spend, from a taken job to its acknowledgement. Spend before reveal; fail closed.

The journal is the arbiter between this worker and one that takes over; see worker/arbiter.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from qserver.answer import Answer
from qserver.answering import answer_from, exact_answer, refusal
from qserver.config import Settings
from qserver.errors import (
    InputError,
    MeasurementError,
    NotFoundError,
    QServerError,
    SnapshotReplacedError,
    StoreBehindError,
    StoreError,
)
from qserver.history import Estimator
from qserver.plan import Planned
from qserver.planning.planner import Plan, row_half_width
from qserver.primitive import Primitive, primitive
from qserver.problems import problem_from_error
from qserver.replica import Replica
from qserver.storage.queue import Taken
from qserver.storage.records import (
    JobRecord,
    Request,
    Reservation,
    answer_json,
)
from qserver.storage.spending import Lease, Outcome, SpendingStore
from qserver.storage.store import Store
from worker.arbiter import released_or_burnt, write_burnt, write_released, write_reserved
from worker.charging import charges_of, reservation_of
from worker.journal import Journal
from worker.live import Live
from worker.measuring import draw_all, slot_of, slot_wait_s
from worker.randomness import Entropy
from worker.tables import Tables
from worker.trail import Payment, Trails

FREE_JOB_KEEP_S = 7 * 86_400
FAILED_JOB_KEEP_S = 7 * 86_400


@dataclass(frozen=True)
class Trusted:
    """What only the trusted side has: private tables by snapshot, journals by population."""

    tables: Mapping[str, Tables]
    journals: Mapping[str, Journal]
    entropy: Entropy


class Spender:
    """Works jobs off, one at a time; for one thread.

    Args:
        reader: the store's read side.
        writer: the store's spending side.
        pause: sleeps for so many seconds; given to keep the publication slot.
        clock: seconds, monotonic.
        wall_clock: Unix time in seconds.
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
        pause: Callable[[float], None] = time.sleep,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._trusted = trusted
        self._settings = settings
        self._log = log
        self._clock = clock
        self._pause = pause
        self._wall_clock = wall_clock
        self._replicas: dict[str, Replica] = {}
        self._trails = Trails(reader, trusted.journals)

    def settle(self, lease: Lease) -> None:
        """Finish or burn every open reservation; refuse a store that knows less than the journal.

        Raises:
            StoreBehindError: the store was lost or restored.
            JournalError: the journal cannot be read.
        """
        population = lease.population
        journal = self._trusted.journals[population]
        with journal.exclusive():
            version, last = journal.last_ledger_version, journal.last_reserved_job
        behind = self._writer.ledger_version(population) < version
        if behind or (last is not None and not self._writer.knows_reservation(population, last)):
            raise StoreBehindError(
                f"The store knows less than the journal of population {population}: it was lost "
                "or restored. Nothing is measured until its owner restores it."
            )
        for job in self._writer.open_reservations(population):
            self._settle_one(lease, job)

    def catch_up(self) -> None:
        """Take in what was released, while nobody waits: the next plan then need not."""
        for replica in self._replicas.values():
            replica.engine.catch_up()

    def work(self, lease: Lease, taken: Taken) -> None:
        """Bring one job to its end, under the lease.

        Raises:
            StoreError: the store failed or the lease passed on; the job stays open and its
                reservation, if any, is settled by the next holder of the lease.
        """
        try:
            record = self._reader.job(taken.job)
        except NotFoundError:
            self._fail(taken, MeasurementError(), snapshot="", n_show=0)
            return
        if record.state in ("done", "failed"):
            self._end(taken, Outcome("done", "", "", 0, 0))
            return
        try:
            self._answer(lease, taken, record)
        except (StoreError, MemoryError):
            raise
        except QServerError as exc:
            self._fail(taken, exc, snapshot="", n_show=0)
        except Exception:  # noqa: BLE001
            # Whatever went wrong may depend on data: the public text is constant.
            self._log.exception("job %s failed", taken.job)
            self._fail(taken, MeasurementError(), snapshot="", n_show=0)

    def _answer(self, lease: Lease, taken: Taken, record: JobRecord) -> None:
        reservation = self._writer.reservation(lease.population, taken.job)
        if reservation is not None:
            self._resume(lease, taken, reservation)
            return
        request = Request.from_json(record.request)
        replica = self._replica(request)
        try:
            stamp = replica.refresh(self._reader)
        except NotFoundError:
            # Detached, or replaced: the facts of the dataset tell which.
            self._replicas.pop(request.snapshot)
            replica = self._replica(request)
            stamp = replica.refresh(self._reader)
        row = primitive(request.query)
        if row.is_zero:
            answer = exact_answer(
                request.requirement, remaining_nano=stamp.remaining_nano, version=stamp.n_shown
            )
            self._succeed(taken, request, answer, None, keep_s=FREE_JOB_KEEP_S)
            return
        plan = replica.plan(row, request.requirement)
        if plan.kind == "free":
            self._answer_free(taken, request, replica, row, plan)
            return
        refused = refusal(row, plan, request.requirement, replica=replica)
        if refused is not None:
            raise refused
        self._spend(lease, taken, request, replica, plan)

    def _answer_free(
        self, taken: Taken, request: Request, replica: Replica, row: Primitive, plan: Plan
    ) -> None:
        estimate = plan.estimate
        if estimate is None:
            raise MeasurementError
        answer = answer_from(
            row,
            request.requirement,
            estimate,
            source="history",
            charged_nano=0,
            remaining_nano=replica.present.remaining_nano,
            version=replica.n_events,
        )
        kept = estimate.estimator(row.key) if estimate.needs_storing else None
        self._succeed(taken, request, answer, kept, keep_s=FREE_JOB_KEEP_S)

    def _spend(
        self, lease: Lease, taken: Taken, request: Request, replica: Replica, plan: Plan
    ) -> None:
        table = self._trusted.tables.get(request.snapshot)
        if table is None:
            # The private data are missing or were changed: refused before anything is charged.
            raise MeasurementError
        live = Live(replica.measurements)
        live.check((*plan.rows, *plan.tables))
        reservation = self._reserve(lease, taken, request, replica, plan)
        try:
            indices = self._measure(table, reservation.planned, live)
        except Exception:  # noqa: BLE001
            self._log.exception("measuring for job %s failed", taken.job)
            self._burn(lease, taken.job)
            raise MeasurementError from None
        if not self._journal_release(lease, reservation, indices):
            raise MeasurementError
        self._finish(lease, reservation, indices, entry=taken.entry)

    def _reserve(
        self, lease: Lease, taken: Taken, request: Request, replica: Replica, plan: Plan
    ) -> Reservation:
        reservation = reservation_of(plan, job=taken.job, request=request, replica=replica)
        at = int(self._wall_clock())
        payment = Payment(request.by, request.snapshot, charges_of(reservation), at)
        entries = self._trails.entries(lease.population, payment)
        version = self._writer.reserve(
            lease,
            reservation,
            ledger_version=replica.present.budget.version,
            charges=entries.texts,
            people=replica.meta.people,
        )
        self._writer.await_durable()
        journal = self._trusted.journals[lease.population]
        write_reserved(journal, reservation, ledger_version=version, charges_digest=entries.digest)
        return reservation

    def _measure(
        self, table: Tables, planned: Sequence[Planned], live: Live
    ) -> list[tuple[int, ...]]:
        """Released lattice indices per row and table; truth and noise live in this call only.

        It takes a whole number of slots, also where it fails.

        Args:
            live: what is in force; it takes in what is drawn.
        """
        begun = self._clock()
        try:
            return draw_all(planned, private=table, live=live, entropy=self._trusted.entropy)
        finally:
            self._keep_slot(begun, planned)

    def _journal_release(
        self, lease: Lease, reservation: Reservation, indices: Sequence[Sequence[int]]
    ) -> bool:
        """Write the released answers down; False when the reservation was burnt meanwhile."""
        return write_released(self._trusted.journals[lease.population], reservation, indices)

    def _keep_slot(self, begun: float, planned: Sequence[Planned]) -> None:
        """Wait until a whole number of slots has passed since counting was begun.

        Only counting and sampling may take their time from private data, so they alone are
        rounded up. Rounding up a longer time would be weaker: whatever else takes a varying time,
        a disk say, could carry a sum close to a slot's end, where a little more counting shows.
        """
        if self._settings.slot_ms == 0:
            return
        slot_s = slot_of(planned, slot_s=self._settings.slot_ms / 1000)
        elapsed_s = self._clock() - begun
        if elapsed_s > slot_s:
            self._log.warning("counting and sampling took longer than their slot: make it longer")
        self._pause(slot_wait_s(elapsed_s, slot_s=slot_s))

    def _finish(
        self,
        lease: Lease,
        reservation: Reservation,
        indices: Sequence[Sequence[int]],
        *,
        entry: str,
    ) -> None:
        """Publish, wait until that is durable, then show and acknowledge. Idempotent by job."""
        population, request = lease.population, reservation.request
        # On any other history the row that a refinement replaces might not be the live one.
        outcome = self._writer.publish(lease, reservation, indices, n_history=reservation.n_history)
        if outcome == "burnt":
            raise MeasurementError
        # A repeated publish wrote nothing itself, so it must wait for everybody's writes.
        self._writer.await_durable(own_writes=outcome == "published")
        replica = self._replica(request)
        replica.refresh(self._reader)
        row = primitive(request.query)
        estimate = replica.engine.estimate_with(
            row,
            reservation.weights,
            confidence=request.requirement.confidence,
            enough=row_half_width(row, request.requirement),
            tables_give_rest=reservation.tables_give_rest,
        )
        if estimate is None:
            raise MeasurementError
        limit = replica.present.budget.limit_nano
        answer = answer_from(
            row,
            request.requirement,
            estimate,
            source=reservation.source,
            charged_nano=reservation.price_nano,
            remaining_nano=limit - reservation.after.lost_nano,
            version=replica.n_events,
        )
        taken = Taken(population, reservation.job, entry)
        kept = None if estimate.is_kept else estimate.estimator(row.key)
        self._succeed(taken, request, answer, kept, keep_s=0)

    def _settle_one(self, lease: Lease, job: str) -> None:
        reservation = self._writer.reservation(lease.population, job)
        if reservation is None:
            raise StoreBehindError("An open reservation has no plan in the store.")
        taken = Taken(lease.population, job, "")
        try:
            self._resume(lease, taken, reservation)
        except MeasurementError as exc:
            self._fail(taken, exc, snapshot="", n_show=0)

    def _resume(self, lease: Lease, taken: Taken, reservation: Reservation) -> None:
        """Finish a reservation from the journal, or burn it. Nothing is ever drawn again."""
        released = released_or_burnt(self._trusted.journals[lease.population], taken.job)
        if released is None:
            self._writer.burn(lease, taken.job)
            self._writer.await_durable()
            raise MeasurementError
        indices = [row.indices for row in released.rows]
        self._finish(lease, reservation, indices, entry=taken.entry)

    def _burn(self, lease: Lease, job: str) -> None:
        write_burnt(self._trusted.journals[lease.population], job)
        self._writer.burn(lease, job)
        self._writer.await_durable()

    def _replica(self, request: Request) -> Replica:
        found = self._replicas.get(request.snapshot)
        if found is None:
            meta = self._reader.meta(request.dataset)
            if meta.snapshot != request.snapshot:
                raise SnapshotReplacedError
            found = Replica(meta, self._settings, shown_only=False)
            self._replicas[request.snapshot] = found
        if found.meta.domain.sizes != request.query.sizes:
            raise InputError("query", "be on the dataset's domain")
        return found

    def _succeed(
        self,
        taken: Taken,
        request: Request,
        answer: Answer,
        kept: Estimator | None,
        *,
        keep_s: int,
    ) -> None:
        n_show = self._writer.n_history(taken.population, request.snapshot)
        text = answer_json(answer)
        self._end(taken, Outcome("done", text, request.snapshot, n_show, keep_s, kept))

    def _fail(self, taken: Taken, error: QServerError, *, snapshot: str, n_show: int) -> None:
        text = problem_from_error(error).to_json()
        self._end(taken, Outcome("failed", text, snapshot, n_show, FAILED_JOB_KEEP_S))

    def _end(self, taken: Taken, outcome: Outcome) -> None:
        self._writer.acknowledge(taken.population, taken.job, outcome, entry=taken.entry)
