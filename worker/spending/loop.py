"""The worker's loop: take jobs, hold their population, settle, work, let go."""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from qserver.config import Settings
from qserver.errors import (
    FencedError,
    QServerError,
    StaleVersionError,
    StoreError,
    StoreNotDurableError,
    StoreUnavailableError,
)
from qserver.storage.charging import Lease
from qserver.storage.queue import Taken
from qserver.storage.server.connection import public_address
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from worker.constants import WORKER
from worker.spending.group.plan import PlanInHand
from worker.spending.presence import Presence
from worker.spending.spend import Spender, Trusted

T = TypeVar("T")


@dataclass(frozen=True)
class Waiting:
    """How a worker waits.

    Args:
        where: the store, for people.
        stopping: set when the worker is asked to stop; looked at after each pause. Nobody waits
            for it: a signal handler must not set an event that the same thread waits for.
        say: takes one line for people.
        pause: sleeps for a number of seconds.
    """

    where: str
    stopping: threading.Event
    say: Callable[[str], None]
    pause: Callable[[float], None] = time.sleep

    def until_found(
        self, open_store: Callable[[], T], *, passing: tuple[type[Exception], ...], found: str
    ) -> T | None:
        """The result of `open_store` once it succeeds; None if asked to stop before.

        Args:
            passing: the errors that may pass; any other is raised.
            found: the line for the end of the wait; not said if the first try succeeds.
        """
        pause_s, waits = WORKER.first_pause_s, False
        while not self.stopping.is_set():
            try:
                opened = open_store()
            except passing as exc:
                if not waits:
                    self.say(f"waiting for {self.where}: {exc}")
                waits = True
                self.pause(pause_s)
                pause_s = min(2 * pause_s, WORKER.longest_pause_s)
            else:
                if waits:
                    self.say(found)
                return opened
        return None


class Heartbeat:
    """A thread that reports the worker alive, and renews its lease during work."""

    def __init__(
        self,
        settings: Settings,
        populations: list[str],
        *,
        clock: Callable[[], float] = time.monotonic,
        worker: str = "",
    ) -> None:
        self._clock = clock
        self._turned_at = clock()
        self._settings = settings
        self.populations = populations
        self._worker = worker or secrets.token_hex(8)
        self._lease: Lease | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def leave(self, store: SpendingStore) -> None:
        """Report that the worker stops, so that nobody waits for its sign of life to expire."""
        store.queue.leave(self.populations, worker=self._worker)

    def hold(self, lease: Lease | None) -> None:
        """Renew this lease from now on; None renews nothing."""
        self._lease = lease

    def turn(self) -> None:
        """Note that the loop turns. Without this the heartbeat soon stops."""
        self._turned_at = self._clock()

    @property
    def hangs(self) -> bool:
        """Whether the loop's last round is longer ago than any job takes."""
        return self._clock() - self._turned_at > WORKER.hangs_s

    def beat(self, store: SpendingStore) -> None:
        """Report once that the worker lives, and renew its lease, unless the loop hangs."""
        if self.hangs:
            return
        store.queue.beat(self.populations, worker=self._worker, ttl_ms=self._settings.lease_ms)
        lease = self._lease
        if lease is not None:
            store.renew(lease)

    def _run(self) -> None:
        store: SpendingStore | None = None
        while not self._stop.is_set():
            try:
                store = store or SpendingStore.open(self._settings)
                self.beat(store)
            except QServerError:
                # The loop meets the same failure and reports it. Here, only try again.
                store = None
            self._stop.wait(self._settings.lease_ms / 1000 / WORKER.beats_per_lease)


class Loop:
    """Works on the jobs of the given populations until told to stop.

    Args:
        news: the attached data if they changed since the last call; else None.
        stopping: set when the worker shall stop; a new event by default.
        say: takes one line for the terminal.
        presence: this worker among those of its folder; None if it works unseen.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        trusted: Trusted,
        log: logging.Logger,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        news: Callable[[], Trusted | None] = lambda: None,
        stopping: threading.Event | None = None,
        say: Callable[[str], None] = lambda _text: None,
        presence: Presence | None = None,
    ) -> None:
        self._clock = clock
        self._presence = presence
        self._news = news
        self._next_check = 0.0
        self._settings = settings
        self._trusted = trusted
        self._log = log
        self._pause = pause
        self._populations = sorted(trusted.journals)
        self._consumer = presence.name if presence else f"unseen-{secrets.token_hex(8)}"
        self._stopping = stopping or threading.Event()
        self._waiting = waiting_for(settings, stopping=self._stopping, say=say)
        # By population: the taken jobs that are not begun, oldest first.
        self._held: dict[str, list[Taken]] = {}
        self._last, self._in_hand = "", PlanInHand(settings, trusted.plans, log)
        self._next_claim = self._next_look = 0.0
        self._connect()

    def appear(self) -> None:
        """Report the worker alive, so that questions are taken before its first round."""
        with contextlib.suppress(StoreError):
            ttl_ms = self._settings.lease_ms
            self._writer.queue.beat(self._populations, worker=self._consumer, ttl_ms=ttl_ms)

    def stop(self) -> None:
        """Finish the job at hand, then return from `run`."""
        self._stopping.set()

    def run(self) -> None:
        """Take and work jobs until stopped.

        Raises:
            StoreBehindError: the store knows less than a journal.
            JournalError: a journal cannot be read or written.
        """
        with Heartbeat(self._settings, self._populations, worker=self._consumer) as heartbeat:
            while not self._stopping.is_set():
                heartbeat.turn()
                try:
                    self._turn(heartbeat)
                except (FencedError, StaleVersionError) as exc:
                    # The job stays open; the next worker settles its reservation.
                    self._log.warning("a job was left to another worker: %s", exc)
                except (StoreUnavailableError, StoreNotDurableError) as exc:
                    self._log.warning("the store cannot be used: %s", exc)
                    self._reconnect()
            self._hand_back()
        with contextlib.suppress(StoreError):
            heartbeat.leave(self._writer)

    def settle_all(self) -> None:
        """Settle every population once, as at the start."""
        for population in self._populations:
            self._writer.queue.make_queue(population)
            lease = self._acquire(population)
            if lease is not None:
                try:
                    self._spender.settle(lease)
                    self._spender.compare(population)
                finally:
                    self._writer.release(lease)

    def _turn(self, heartbeat: Heartbeat) -> None:
        # Settings can change while the store runs; eviction, for example, leaves no other trace.
        if self._clock() >= self._next_check:
            self._writer.check_durable()
            self._next_check = self._clock() + WORKER.check_s
        self._see_off_the_dead()
        self._claim()
        taken = self._next()
        if taken is not None:
            self._hold([taken])
        # A question comes after its dataset is in the registry, so look there again first.
        found = self._news()
        if found is not None:
            self._serve(found, heartbeat)
        if not self._try_held(heartbeat) and self._held:
            self._pause(WORKER.lease_pause_s)

    def _see_off_the_dead(self) -> None:
        """Release what workers that died on this host held."""
        if self._presence is None or self._clock() < self._next_look:
            return
        self._next_look = self._clock() + WORKER.see_off_s
        self._presence.see_off(self._see_off)

    def _see_off(self, dead: str) -> None:
        for population in self._populations:
            self._writer.see_off(population, dead)
        self._next_claim = 0.0
        self._log.warning("worker %s died; what it held is free", dead)

    def _serve(self, trusted: Trusted, heartbeat: Heartbeat) -> None:
        """Go on with the newly attached data."""
        self._trusted = trusted
        self._populations = heartbeat.populations = sorted(trusted.journals)
        self._connect()

    def _try_held(self, heartbeat: Heartbeat) -> bool:
        """Work on the held jobs of a free population; False if none is free."""
        for population in self._in_turn():
            held = self._held.get(population)
            if not held:
                continue
            held += self._more(population, most=WORKER.group_jobs - len(held))
            lease = self._writer.acquire(
                population, jobs=[taken.job for taken in held], holder=self._consumer
            )
            if lease:
                del self._held[population]
                self._last = population
                self._work(heartbeat, lease, held)
                return True
        return False

    def _more(self, population: str, *, most: int) -> list[Taken]:
        return self._writer.queue.more(population, consumer=self._consumer, most=most)

    def _work(self, heartbeat: Heartbeat, lease: Lease, group: list[Taken]) -> None:
        """Work on a group of jobs; the rest of it, or given-up jobs, stay held."""
        left = group[1:]
        heartbeat.hold(lease)
        try:
            self._spender.settle(lease)
            left = self._spender.work(lease, group)
        except StoreUnavailableError:
            # Nobody else has the first one: it is taken again once the store is back.
            left = [replace(group[0], n_taken=group[0].n_taken + 1), *left]
            raise
        finally:
            if left:
                self._held[lease.population] = left
            heartbeat.hold(None)
            self._writer.release(lease)
        self._spender.catch_up()

    def _in_turn(self) -> list[str]:
        """The populations, the last served at the end, so that a flood delays no other."""
        later = [p for p in self._populations if p > self._last]
        return later + [p for p in self._populations if p <= self._last]

    def _hold(self, taken: list[Taken]) -> None:
        """Keep taken jobs of one population until it is their turn."""
        held = self._held.setdefault(taken[0].population, [])
        known = {one.job for one in held}
        held += [one for one in taken if one.job not in known]

    def _next(self) -> Taken | None:
        """The next job of a population without held ones."""
        free = [p for p in self._in_turn() if p not in self._held]
        if not free:
            return None
        block_ms = None if self._held else WORKER.take_block_ms
        return self._writer.queue.take(free, consumer=self._consumer, block_ms=block_ms)

    def _claim(self) -> None:
        """Take jobs of silent workers, which are looked for at intervals, however many wait."""
        if self._clock() < self._next_claim:
            return
        lease_s = self._settings.lease_ms / 1000
        self._next_claim = self._clock() + lease_s / WORKER.claims_per_lease
        for population in self._populations:
            for _ in range(WORKER.group_jobs):
                found = self._writer.queue.take_over(
                    population, consumer=self._consumer, idle_ms=self._settings.lease_ms
                )
                if found is None:
                    break
                self._hold([found])

    def _hand_back(self) -> None:
        """Leave held jobs to other workers at once."""
        for taken in (one for held in self._held.values() for one in held):
            with contextlib.suppress(StoreError):
                self._writer.queue.hand_back(
                    taken, consumer=self._consumer, idle_ms=self._settings.lease_ms
                )
        self._held.clear()
        with contextlib.suppress(StoreError):
            self._writer.queue.hand_back_brought(
                consumer=self._consumer, idle_ms=self._settings.lease_ms
            )

    def _acquire(self, population: str) -> Lease | None:
        """Wait for the lease; None only when stopping."""
        while not self._stopping.is_set():
            lease = self._writer.acquire(population, holder=self._consumer)
            if lease is not None:
                return lease
            self._see_off_the_dead()
            self._pause(WORKER.lease_pause_s)
        return None

    def _connect(self) -> None:
        self._reader = Store.open(self._settings, role="worker-reader")
        self._writer = SpendingStore.open(self._settings)
        for population in self._populations:
            # The store died, so the lease could not be given back.
            self._writer.give_back(population, self._consumer)
        self._spender = Spender(
            reader=self._reader,
            writer=self._writer,
            trusted=self._trusted,
            settings=self._settings,
            log=self._log,
            in_hand=self._in_hand,
        )
        self.settle_all()

    def _reconnect(self) -> None:
        passing = (FencedError, StaleVersionError, StoreUnavailableError, StoreNotDurableError)
        self._waiting.until_found(self._connect, passing=passing, found="found the store again")


def waiting_for(
    settings: Settings, *, stopping: threading.Event, say: Callable[[str], None]
) -> Waiting:
    """How to wait for the store of these settings."""
    shown = public_address(settings.store_url)
    return Waiting(f"the store at {shown}" if settings.redis_url else shown, stopping, say)
