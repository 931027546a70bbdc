"""One spend, from a taken job to its acknowledgement. Spend before reveal; fail closed.

The journal decides between this worker and one that takes over: worker/journal/sections.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from qserver.answering.decide import Free, decide
from qserver.answering.replica import Replica
from qserver.checkpoint.folder import CheckpointFolder
from qserver.config import Settings
from qserver.errors import (
    BooksError,
    FencedError,
    InputError,
    JournalError,
    MeasurementError,
    NotFoundError,
    QServerError,
    SnapshotReplacedError,
    StoreBehindError,
    StoreCorruptError,
    StoreError,
    UnanswerableError,
)
from qserver.planning.planner import Plan
from qserver.records.answer import ModelAnswer
from qserver.records.problem import problem_from_error
from qserver.storage.encoding.jobs import JobRecord, answer_json
from qserver.storage.encoding.requests import Request, Reservation
from qserver.storage.endings import Outcome
from qserver.storage.queue import Taken
from qserver.storage.spend import Lease, SpendingStore
from qserver.storage.store import Store
from worker.constants import WORKER
from worker.journal.journal import Journal
from worker.journal.sections import (
    Drawn,
    Replay,
    attest,
    check_witness,
    released_or_burnt,
    write_burnt,
    write_released,
    write_reserved,
)
from worker.noise.randomness import Entropy, SystemEntropy
from worker.private.tables import Tables
from worker.spending.bookkeeper import Bookkeeper
from worker.spending.checkpoints import Checkpoints
from worker.spending.histories import Histories
from worker.spending.live import Live
from worker.spending.measure import draw_all
from worker.spending.rehearsal import rehearse
from worker.spending.reservation import answer_spent, charges_of, reservation_of
from worker.spending.slot import busy_until, slot_end_s, slot_of_job
from worker.spending.trail import ChargePayment, Trails
from worker.spending.two_stages import SampledTables, draw_in_two_stages, first_tables


@dataclass(frozen=True)
class Trusted:
    """The trusted side: tables by snapshot, journals by population, entropy, checkpoints."""

    tables: Mapping[str, Tables]
    journals: Mapping[str, Journal]
    entropy: Entropy
    checkpoints: CheckpointFolder | None = None


class Spender:
    """Brings jobs to their end, one at a time; for one thread.

    Args:
        reader: the store's read side.
        writer: the store's spending side.
        clock: seconds, monotonic.
        wait_until: returns at a moment of the clock, to keep the publication slot.
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
        wait_until: Callable[[float], None] = busy_until,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._trusted = trusted
        self._settings = settings
        self._log = log
        self._clock = clock
        self._wait_until = wait_until
        self._wall_clock = wall_clock
        self._replicas: dict[str, Replica] = {}
        self._checkpoints = Checkpoints(settings, trusted.checkpoints, log)
        self._trails = Trails(reader, trusted.journals)
        self._histories = Histories(writer, trusted.journals)
        self._bookkeeper = Bookkeeper(reader, trusted.journals, log)

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
        """A spender that can settle jobs, but has no private data to count or draw from."""
        trusted = Trusted({}, journals, SystemEntropy())
        return cls(reader=reader, writer=writer, trusted=trusted, settings=settings, log=log)

    def settle(self, lease: Lease) -> None:
        """Finish or burn every open reservation. A store behind its journal is refused.

        Raises:
            StoreBehindError: the store was lost or restored.
            StoreCorruptError: a history is not the one that was released.
            JournalError: the journal cannot be read.
        """
        population, journal = lease.population, self._trusted.journals[lease.population]
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
        self.settle_open(lease)
        self._histories.check(population)

    def compare(self, population: str) -> None:
        """Hold the store's facts and jobs against the journal; the log names what differs."""
        self._bookkeeper.compare(population)

    def settle_open(self, lease: Lease) -> None:
        """Finish or burn every open reservation of the store, as the journal decides."""
        for job in self._writer.open_reservations(lease.population):
            self.settle_job(lease, job)

    def catch_up(self) -> None:
        """Take the last release into the replicas, and write checkpoints, between jobs."""
        self._checkpoints.catch_up(self._replicas.values())

    def work(self, lease: Lease, taken: Taken) -> None:
        """Bring one job to its end, under the lease.

        Raises:
            StoreError: the store failed or the lease passed on. The job stays open; the next
                holder of the lease settles its reservation, if there is one.
            JournalError: the journal cannot be written; the job stays open likewise.
        """
        try:
            record = self._reader.job(taken.job)
        except (NotFoundError, StoreCorruptError):
            # Nobody knows any more what was asked. Other jobs shall not wait for this one.
            self._fail(taken, MeasurementError(), snapshot="", n_show=0)
            return
        if record.state in ("done", "failed"):
            self._writer.acknowledge(taken, Outcome("done", "", "", 0, 0))
            return
        concluded = self._writer.endings.concluded(taken)
        if concluded is not None:
            self._writer.acknowledge(taken, concluded)
            return
        try:
            self._answer(lease, taken, record)
        except (StoreError, JournalError, MemoryError):
            raise
        except QServerError as exc:
            if isinstance(exc, BooksError) and not self._writer.renew(lease):
                # Others have charged since the plan was made; the job is the new holder's.
                raise FencedError("The lease passed to another worker.") from exc
            self._fail(taken, exc, snapshot="", n_show=0)
        except Exception:  # noqa: BLE001
            # The fault may depend on private data, so the public text is constant.
            self._log.exception("job %s failed", taken.job)
            self._fail(taken, MeasurementError(), snapshot="", n_show=0)

    def _answer(self, lease: Lease, taken: Taken, record: JobRecord) -> None:
        reservation = self._writer.reservation(lease.population, taken.job)
        if reservation is not None:
            self._resume(lease, taken, reservation)
            return
        if taken.n_taken > WORKER.most_taken:
            # Several workers died over this job, and the next one would too.
            raise MeasurementError
        request = Request.from_json(record.request)
        replica = self._replica(request)
        try:
            replica.refresh(self._reader)
        except NotFoundError:
            # Detached or replaced: the dataset's facts tell which.
            self._replicas.pop(request.snapshot)
            replica = self._replica(request)
            replica.refresh(self._reader)
        found = decide(replica, request.asked)
        if isinstance(found, Free):
            self._succeed(taken, request, found, keep_s=WORKER.job_keep_s)
        else:
            self._spend(lease, taken, request, replica, found)

    def _spend(
        self, lease: Lease, taken: Taken, request: Request, replica: Replica, plan: Plan
    ) -> None:
        table = self._trusted.tables.get(request.snapshot)
        if table is None or (plan.sampled is not None and not isinstance(table, SampledTables)):
            # The private data are missing or changed, or they cannot be sampled. Refuse before
            # anything is charged.
            raise MeasurementError
        live = Live(replica.measurements)
        live.check((*plan.rows, *plan.tables))
        reservation = reservation_of(plan, job=taken.job, request=request, replica=replica)
        self._rehearse(reservation, replica)
        if self._settings.replicas:
            # Without its replicas the store could not keep the charge: it would be burnt.
            self._writer.await_durable(own_writes=False)
        self._reserve(lease, reservation, replica)
        try:
            drawn = self._measure(table, reservation, live)
        except Exception:  # noqa: BLE001
            self._log.exception("measuring for job %s failed", taken.job)
            self._burn(lease, taken.job)
            raise MeasurementError from None
        if not self._journal_release(lease, drawn):
            raise MeasurementError
        self._finish(lease, drawn, entry=taken.entry)

    def _rehearse(self, reservation: Reservation, replica: Replica) -> None:
        """Return if the plan gives an answer; by public facts alone, before it is charged.

        Raises:
            UnanswerableError: it gives none.
        """
        try:
            rehearse(reservation, replica)
        except MemoryError:
            raise
        except Exception as exc:
            self._log.exception("the plan of job %s gives no answer", reservation.job)
            raise UnanswerableError from exc

    def _reserve(self, lease: Lease, reservation: Reservation, replica: Replica) -> None:
        at, request = int(self._wall_clock()), reservation.request
        payment = ChargePayment(request.by, request.snapshot, charges_of(reservation), at)
        entries = self._trails.entries(lease.population, payment)
        nominal_nano = sum(t.alpha_nano for t in first_tables(reservation, replica.meta.domain))
        books = self._bookkeeper.judge(
            lease.population, reservation, replica.meta, nominal_nano=nominal_nano
        )
        journal = self._trusted.journals[lease.population]
        check_witness(journal)  # One that is away, or says no, must not waste a charge.
        version = self._writer.reserve(
            lease,
            reservation,
            ledger_version=replica.present.budget.version,
            charges=entries.texts,
        )
        self._writer.await_durable()
        write_reserved(
            journal,
            Replay(reservation, entries.texts, entries.changes, nominal_nano),
            ledger_version=version,
            charges_digest=entries.digest,
            books=books,
        )
        self._attest(lease)

    def _measure(self, table: Tables, reservation: Reservation, live: Live) -> Drawn:
        """The released answers. Truth, noise and samples live in this call only.

        It takes a whole number of slots, also when it fails.

        Args:
            live: the measurements in force; the new ones are added.
        """
        meta, entropy = self._replica(reservation.request).meta, self._trusted.entropy
        slot_s = slot_of_job(reservation, meta, slot_ms=self._settings.slot_ms)
        begun = self._clock()
        try:
            if reservation.sampled is not None:
                return draw_in_two_stages(
                    reservation, domain=meta.domain, private=table, live=live, entropy=entropy
                )
            indices = draw_all(reservation.planned, private=table, live=live, entropy=entropy)
            return Drawn(reservation, indices)
        finally:
            self._keep_slot(begun, slot_s)

    def _journal_release(self, lease: Lease, drawn: Drawn) -> bool:
        """Write the released answers down; False if the reservation was burnt meanwhile."""
        return write_released(self._trusted.journals[lease.population], drawn)

    def _attest(self, lease: Lease) -> None:
        """Let the witness see what the journal has; JournalError if it refuses."""
        if not attest(self._trusted.journals[lease.population]):
            self._log.warning("the witness is away; it is wished for only, so work goes on")

    def _keep_slot(self, begun: float, slot_s: float) -> None:
        """Wait until a whole number of slots has passed since counting began."""
        now = self._clock()
        if now - begun > slot_s > 0:
            self._log.warning("counting and sampling took longer than their slot: make it longer")
        self._wait_until(slot_end_s(begun, now, slot_s=slot_s))

    def _finish(self, lease: Lease, drawn: Drawn, *, entry: str) -> None:
        """Publish, wait until that is durable, then show and acknowledge. Idempotent by job."""
        reservation = drawn.reservation
        population, request = lease.population, reservation.request
        self._attest(lease)  # An older journal without the answer would draw another one.
        # On another history a refinement might replace a row that is not the live one.
        released = self._trusted.journals[population].state.released[reservation.job]
        outcome = self._writer.publish(
            lease,
            reservation,
            drawn.indices,
            n_history=reservation.n_history,
            head=released.head,
        )
        if outcome == "burnt":
            raise MeasurementError
        # A repeated publish wrote nothing itself, so it must wait for the writes of others.
        self._writer.await_durable(own_writes=outcome == "published")
        replica = self._replica(request)
        replica.refresh(self._reader)
        taken = Taken(population, reservation.job, entry, request.dataset)
        self._succeed(taken, request, answer_spent(replica, reservation), keep_s=0)

    def settle_job(self, lease: Lease, job: str) -> None:
        """Bring a reserved job to its end, as the journal decides; does nothing if it has ended.

        Raises:
            StoreBehindError: the store does not know the reservation.
        """
        reservation = self._writer.reservation(lease.population, job)
        if reservation is None:
            raise StoreBehindError("An open reservation has no plan in the store.")
        taken = Taken(lease.population, job, "", reservation.request.dataset)
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
        self._finish(lease, Drawn.of_journal(reservation, released), entry=taken.entry)

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
            found = self._replicas[request.snapshot] = self._checkpoints.replica(meta)
        if found.meta.domain.sizes != request.sizes:
            raise InputError("query", "be on the dataset's domain")
        return found

    def _succeed(self, taken: Taken, request: Request, found: Free, *, keep_s: int) -> None:
        answer = found.answer
        if isinstance(answer, ModelAnswer):
            # Before the job is shown as done. If it is settled twice, the first model stays.
            answer = replace(answer, id=taken.job)
            self._writer.models.keep(taken.population, request, answer)
        n_show = self._writer.n_history(taken.population, request.snapshot)
        text = answer_json(answer)
        outcome = Outcome("done", text, request.snapshot, n_show, keep_s, found.estimators)
        self._writer.acknowledge(taken, outcome)

    def _fail(self, taken: Taken, error: QServerError, *, snapshot: str, n_show: int) -> None:
        text = problem_from_error(error).to_json()
        outcome = Outcome("failed", text, snapshot, n_show, WORKER.job_keep_s)
        self._writer.acknowledge(taken, outcome)
