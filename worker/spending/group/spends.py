"""Carry out the spends of a group: reserve, draw, journal, publish; one flush for each step.

docs/protocol.md has the order. No draw comes before all charges are durable, and nothing is
published before all answers are.

A spend on placeholders: the whole answer is built once before anything is charged.

The code that later publishes and answers runs first on a copy of the state, with placeholders
instead of drawn answers. So a plan that gives no answer is never charged. All of it is public: the
plan, the released history, and placeholders that follow from these. No private data are read, and
no noise is drawn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from qserver.answering.replica import Replica
from qserver.config import Settings
from qserver.errors import InputError, JournalError, StoreCorruptError
from qserver.query.domain import Domain
from qserver.records.charge import NANO, charge_from_json, charge_json
from qserver.records.plan import PlannedRow, PlannedTable
from qserver.storage.charging import Charging, Lease, Publishing, PublishOutcome
from qserver.storage.encoding.jobs import answer_from_json, answer_json, measurement_json
from qserver.storage.encoding.queued_requests import Reservation
from qserver.storage.queue import Outcome
from qserver.storage.spend import SpendingStore
from worker.journal.journal import Journal
from worker.journal.sections import (
    Charged,
    Drawn,
    Replay,
    attest,
    check_witness,
    write_burnt,
    write_decided,
    write_released,
    write_reserved,
)
from worker.noise.randomness import Entropy
from worker.private.record_tables import RemoteTables, Tables
from worker.spending.answers_in_force import Live, Origin
from worker.spending.group.job_ends import next_request
from worker.spending.group.plan import Spend
from worker.spending.group.replicas import Replicas
from worker.spending.measure import check_law, draw_all, in_turn
from worker.spending.presence import while_held
from worker.spending.reservation import answer_spent, charges_of
from worker.spending.second_purchase import decided as decided_after
from worker.spending.slot import slot_end_s, slot_of_group, slots_on
from worker.spending.spans import traced
from worker.spending.two_stages import decided, draw_in_two_stages, first_tables


class Spends:
    """The steps of a group's spends; for one thread.

    Args:
        tables: the private data, by snapshot.
        clock: seconds, monotonic.
        wait_until: returns at a moment of the clock, to keep the publication slot.
    """

    def __init__(
        self,
        *,
        writer: SpendingStore,
        journals: Mapping[str, Journal],
        replicas: Replicas,
        tables: Mapping[str, Tables],
        entropy: Entropy,
        settings: Settings,
        log: logging.Logger,
        clock: Callable[[], float],
        wait_until: Callable[[float], None],
    ) -> None:
        self._writer = writer
        self._journals = journals
        self._replicas = replicas
        self._tables = tables
        self._entropy = entropy
        self._settings = settings
        self._log = log
        self._clock = clock
        self._wait_until = wait_until

    def reserve(self, lease: Lease, spends: Sequence[Spend]) -> None:
        """Charge all or none; durable in store, journal and witness when this returns.

        Raises:
            BudgetExhaustedError, StaleVersionError: nothing is charged.
            StoreError, JournalError: some of it may be; whoever settles decides by the journal.
        """
        journal = self._journals[lease.population]
        if self._settings.replicas:
            # Without its replicas the store could not keep the charges: they would be burnt.
            self._writer.await_durable(own_writes=False)
        check_witness(journal)  # A witness that is away, or refuses, must not waste a charge.
        charging = [Charging(one.reservation, one.entries.texts) for one in spends]
        self._writer.reserve(lease, charging, ledger_version=spends[0].ledger_version)
        self._writer.await_durable()
        write_reserved(journal, [_charged(one) for one in spends])
        self._attest(lease)

    def draw(self, spends: Sequence[Spend]) -> list[Drawn]:
        """The released answers in the order of the plans, up to the first failed draw.

        Later plans build on the ids and weights of earlier ones, so nothing is drawn after a
        failure. All together they take a whole number of slots, also when one fails. Truth, noise
        and samples live in this call only.
        """
        slot_s = slot_of_group(
            [one.n_slots for one in spends], slot_s=self._settings.slot_ms / 1000
        )
        if slot_s > 0:
            slot_s += sum(one.remote_s for one in spends)
        drawn, lives = list[Drawn](), dict[str, Live]()
        begun = self._clock()
        try:
            for spend in spends:
                drawn.append(self._measure(spend, lives))
        except Exception:  # noqa: BLE001
            taken = spends[len(drawn)].taken
            self._log.exception("measuring for job %s failed", taken.job, extra=traced(taken))
        finally:
            self._keep_slot(begun, slot_s)
        return drawn

    def go_on(self, lease: Lease, spend: Spend, first: Drawn) -> list[Drawn]:
        """The answers of both purchases of a spend, in its own slot for the second; or none.

        What the first answers decide is in the journal before anything is drawn for it.
        """
        replica = self._replicas.get(spend.request)
        private, slot_s = self._tables[spend.request.snapshot], self._settings.slot_ms / 1000
        try:
            tables, live = decided_after(first, replica)
            check_law(tables, replica.meta.law)
            if not write_decided(self._journals[lease.population], first, tables):
                return []
            if slot_s > 0:
                n_slots = slots_on(replica.meta, tables)
                remote_s = private.slot_s * len(tables) if isinstance(private, RemoteTables) else 0
                slot_s = slot_of_group([n_slots], slot_s=slot_s) + remote_s
            begun = self._clock()
            try:
                indices = draw_all(
                    tables,
                    private=private,
                    live=live,
                    entropy=self._entropy,
                    law=replica.meta.law,
                )
            finally:
                self._keep_slot(begun, slot_s)
        except (JournalError, MemoryError):
            raise
        except Exception:  # noqa: BLE001
            self._log.exception("measuring for job %s failed", spend.taken.job)
            return []
        return [first.going_on(tables, indices)]

    def release(self, lease: Lease, drawn: Sequence[Drawn]) -> bool:
        """Write the released answers; False if a reservation was burnt meanwhile."""
        return write_released(self._journals[lease.population], drawn)

    def publish(self, lease: Lease, drawn: Sequence[Drawn]) -> list[PublishOutcome]:
        """Publish the journal's answers in order; durable when this returns. Idempotent by job.

        Returns:
            What became of each, up to the first that was burnt.
        """
        self._attest(lease)  # An older journal without the answers would draw others.
        released = self._journals[lease.population].state.released
        publishings = [
            Publishing(one.reservation, one.indices, released[one.reservation.job].head)
            for one in drawn
        ]
        with while_held(self._writer, lease, StoreCorruptError):
            outcomes = self._writer.publish(lease, publishings)
        # A repeated publish wrote nothing itself, so it must wait for others' writes.
        self._writer.await_durable(own_writes=set(outcomes) == {"published"})
        return outcomes

    def burn(self, lease: Lease, jobs: Sequence[str]) -> None:
        """Give up reservations for ever, unless they are released."""
        write_burnt(self._journals[lease.population], jobs)
        for job in jobs:
            self._writer.burn(lease, job)
        self._writer.await_durable()

    def _measure(self, spend: Spend, lives: dict[str, Live]) -> Drawn:
        """The released answers of one spend.

        Args:
            lives: by snapshot the measurements in force; the new ones are added.
        """
        replica, snapshot = self._replicas.get(spend.request), spend.request.snapshot
        live = lives.setdefault(snapshot, Live(replica.measurements))
        private, reservation = self._tables[snapshot], spend.reservation
        check_law(reservation.planned, replica.meta.law)
        if reservation.sampled is not None:
            return draw_in_two_stages(
                reservation,
                domain=replica.meta.domain,
                private=private,
                live=live,
                entropy=self._entropy,
            )
        indices = draw_all(
            reservation.planned,
            private=private,
            live=live,
            entropy=self._entropy,
            law=replica.meta.law,
        )
        return Drawn(reservation, indices)

    def _keep_slot(self, begun: float, slot_s: float) -> None:
        """Wait until a whole number of slots has passed since counting began."""
        now = self._clock()
        if now - begun > slot_s > 0:
            self._log.warning("counting and sampling took longer than their slot: make it longer")
        self._wait_until(slot_end_s(begun, now, slot_s=slot_s))

    def _attest(self, lease: Lease) -> None:
        """Show the witness the journal; JournalError if it refuses."""
        if not attest(self._journals[lease.population]):
            self._log.warning("the witness is away; it is wished for only, so work goes on")


def _charged(spend: Spend) -> Charged:
    entries = spend.entries
    replay = Replay(spend.reservation, entries.texts, entries.changes, spend.nominal_nano)
    return Charged(replay, spend.ledger_version + 1, entries.digest, spend.books)


@dataclass(frozen=True)
class Rehearsed:
    """The outcome of a spend on placeholders.

    Args:
        outcome: of the job.
        after: the replica then, for the plans that follow. They depend on rows and alphas, never
            on answers.
    """

    outcome: Outcome
    after: Replica


def rehearse(reservation: Reservation, replica: Replica) -> Rehearsed:
    """The outcome of a job if placeholders were drawn; `replica` stays unchanged.

    Args:
        reservation: not made yet, of a plan on the replica's present state.

    Raises:
        Exception: any fault that would come up after the charge.
    """
    # A worker that takes over reads all of this again.
    reservation = Reservation.from_json(reservation.to_json())
    _check_charges(reservation, replica)
    drawn = _made_up(reservation, replica)
    drawn = Drawn.of_journal(reservation, drawn.to_journal())
    events = [
        measurement_json(planned, found, reservation.job)
        for planned, found in zip(drawn.reservation.planned, drawn.indices, strict=True)
    ]
    after = replica.tried(events)
    found = answer_spent(after, drawn.reservation)
    text = answer_json(found.answer)
    answer_from_json(text)
    more = next_request(after, drawn.reservation, found.answer)
    refines, kept = "" if more is None else more.to_json(), found.estimators
    outcome = Outcome("done", text, replica.meta.snapshot, after.n_events, 0, kept, refines)
    return Rehearsed(Outcome.from_json(outcome.to_json()), after)


def _check_charges(reservation: Reservation, replica: Replica) -> None:
    """Read the ledger's lines again, as every reader will."""
    snapshot, sizes = replica.meta.snapshot, replica.meta.domain.sizes
    for charge in charges_of(reservation):
        text = charge_json(charge, snapshot=snapshot, at=0)
        if charge_from_json(text, snapshot=snapshot, sizes=sizes) != charge:
            raise InputError("charge", "be read back as it was written")


def _made_up(reservation: Reservation, replica: Replica) -> Drawn:
    """The draw with placeholders; for two stages or purchases, of both."""
    source, live = Placeholders(), Live(replica.measurements)
    if reservation.sampled is not None:
        reservation = _decided(reservation, replica.meta.domain)
    first = Drawn(reservation, in_turn(reservation.planned, source=source, live=live))
    if reservation.second is None:
        return first
    tables, live = decided_after(first, replica)
    return first.going_on(tables, in_turn(tables, source=source, live=live))


def _decided(reservation: Reservation, domain: Domain) -> Reservation:
    noisy = [
        np.array(Placeholders().of_table(table, {}), float) * float(table.step)
        for table in first_tables(reservation, domain)
    ]
    return decided(reservation, domain, noisy)


@dataclass(frozen=True)
class Placeholders:
    """Answers one noise scale from zero, or from the answers that they continue."""

    def of_row(self, row: PlannedRow, origin: Origin | None) -> int:
        """A row's placeholder.

        Raises:
            InputError: no noise could be drawn for it on any data.
        """
        if row.row.is_zero or (Fraction(1, row.row.denominator) / row.step).denominator != 1:
            raise InputError("step", "divide the row's unit", row.step)
        return _placeholder(row, origin)

    def of_table(self, table: PlannedTable, origins: Mapping[int, Origin]) -> tuple[int, ...]:
        """The placeholders of a table's cells."""
        if (1 / table.step).denominator != 1:
            raise InputError("step", "divide 1", table.step)
        alone = _placeholder(table, None)
        found = [alone] * table.partition.n_cells
        for cell, origin in origins.items():
            found[cell] = _placeholder(table, origin)
        return tuple(found)


def _placeholder(planned: PlannedRow | PlannedTable, origin: Origin | None) -> int:
    if planned.alpha_nano <= 0:
        raise InputError("alpha_nano", "be > 0", planned.alpha_nano)
    if origin is not None and origin.alpha_nano >= planned.alpha_nano:
        return origin.index
    scale = ceil(Fraction(NANO, planned.alpha_nano) / planned.step)
    return scale + (0 if origin is None else origin.index)
