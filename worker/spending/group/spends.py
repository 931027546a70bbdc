"""Carry out the spends of a group: reserve, draw, journal, publish; one flush for each step.

docs/protocol.md has the order. No draw comes before all charges are durable, and nothing is
published before all answers are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from qserver.config import Settings
from qserver.errors import StoreCorruptError
from qserver.storage.charging import Charging, Lease, Publishing, PublishOutcome
from qserver.storage.spend import SpendingStore
from worker.journal.journal import Journal
from worker.journal.sections import (
    Charged,
    Drawn,
    Replay,
    attest,
    check_witness,
    write_burnt,
    write_released,
    write_reserved,
)
from worker.noise.randomness import Entropy
from worker.private.tables import Tables
from worker.spending.group.planned import Spend
from worker.spending.group.replicas import Replicas
from worker.spending.live import Live
from worker.spending.measure import draw_all
from worker.spending.presence import while_held
from worker.spending.slot import slot_end_s, slot_of_group
from worker.spending.spans import traced
from worker.spending.two_stages import draw_in_two_stages


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
        check_witness(journal)  # One that is away, or says no, must not waste a charge.
        charging = [Charging(one.reservation, one.entries.texts) for one in spends]
        self._writer.reserve(lease, charging, ledger_version=spends[0].ledger_version)
        self._writer.await_durable()
        write_reserved(journal, [_charged(one) for one in spends])
        self._attest(lease)

    def draw(self, spends: Sequence[Spend]) -> list[Drawn]:
        """The released answers in the order of the plans, up to the first draw that fails.

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

    def release(self, lease: Lease, drawn: Sequence[Drawn]) -> bool:
        """Write the released answers down; False if a reservation was burnt meanwhile."""
        return write_released(self._journals[lease.population], drawn)

    def publish(self, lease: Lease, drawn: Sequence[Drawn]) -> list[PublishOutcome]:
        """Publish what the journal has, in order; durable when this returns. Idempotent by job.

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
        # A repeated publish wrote nothing itself, so it must wait for the writes of others.
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
        if reservation.sampled is not None:
            return draw_in_two_stages(
                reservation,
                domain=replica.meta.domain,
                private=private,
                live=live,
                entropy=self._entropy,
            )
        indices = draw_all(reservation.planned, private=private, live=live, entropy=self._entropy)
        return Drawn(reservation, indices)

    def _keep_slot(self, begun: float, slot_s: float) -> None:
        """Wait until a whole number of slots has passed since counting began."""
        now = self._clock()
        if now - begun > slot_s > 0:
            self._log.warning("counting and sampling took longer than their slot: make it longer")
        self._wait_until(slot_end_s(begun, now, slot_s=slot_s))

    def _attest(self, lease: Lease) -> None:
        """Let the witness see what the journal has; JournalError if it refuses."""
        if not attest(self._journals[lease.population]):
            self._log.warning("the witness is away; it is wished for only, so work goes on")


def _charged(spend: Spend) -> Charged:
    entries = spend.entries
    replay = Replay(spend.reservation, entries.texts, entries.changes, spend.nominal_nano)
    return Charged(replay, spend.ledger_version + 1, entries.digest, spend.books)
