"""The worker's loop: take a job, hold its population, settle, work, let go."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from qserver.config import Settings
from qserver.errors import (
    FencedError,
    PrivateDataError,
    QServerError,
    StaleVersionError,
    StoreNotDurableError,
    StoreUnavailableError,
)
from qserver.storage.queue import Taken
from qserver.storage.spending import Lease, SpendingStore
from qserver.storage.store import Store
from worker.attach import read_entry
from worker.randomness import SystemEntropy
from worker.registry import Registry
from worker.spend import Spender, Trusted
from worker.tables import Table

_BLOCK_MS = 500
_LEASE_PAUSE_S = 0.002
_CHECK_S = 5.0


@dataclass(frozen=True)
class Loaded:
    """What was loaded, and which datasets were refused (changed or unreadable data)."""

    trusted: Trusted
    refused: tuple[str, ...]


def load(registry: Registry, *, log: logging.Logger) -> Loaded:
    """Read every attached dataset and check that it is what was attached.

    A dataset whose file cannot be read, or whose content changed, is refused: questions on it
    fail with the constant public code before anything is charged.
    """
    tables: dict[str, Table] = {}
    refused: list[str] = []
    for entry in registry.entries().values():
        try:
            snapshot = read_entry(registry, entry)
        except PrivateDataError:
            log.exception("dataset %s cannot be read", entry.name)
            refused.append(entry.name)
            continue
        if not secrets.compare_digest(snapshot.fingerprint, entry.fingerprint):
            log.error("dataset %s: its content is not what was attached", entry.name)
            refused.append(entry.name)
            continue
        tables[entry.snapshot] = snapshot.table
    populations = {entry.population for entry in registry.entries().values()}
    journals = {p: registry.journal(p, create=False) for p in populations}
    return Loaded(Trusted(tables, journals, SystemEntropy()), tuple(refused))


class Heartbeat:
    """Says that this worker lives, and holds its lease while it works. A thread of its own."""

    def __init__(self, settings: Settings, populations: list[str]) -> None:
        self._settings = settings
        self._populations = populations
        self._lease: Lease | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def hold(self, lease: Lease | None) -> None:
        """Renew this lease from now on; None renews nothing."""
        self._lease = lease

    def _run(self) -> None:
        store: SpendingStore | None = None
        while not self._stop.is_set():
            try:
                store = store or SpendingStore.open(self._settings)
                store.queue.beat(self._populations, ttl_ms=self._settings.lease_ms)
                lease = self._lease
                if lease is not None:
                    store.renew(lease)
            except QServerError:
                # The loop itself meets the same failure and reports it; here only try again.
                store = None
            self._stop.wait(self._settings.lease_ms / 4000)


class Loop:
    """Works off the jobs of the given populations until told to stop."""

    def __init__(
        self,
        *,
        settings: Settings,
        trusted: Trusted,
        log: logging.Logger,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._next_check = 0.0
        self._settings = settings
        self._trusted = trusted
        self._log = log
        self._pause = pause
        self._populations = sorted(trusted.journals)
        self._consumer = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(4)}"
        self._stopping = threading.Event()
        self._connect()

    def stop(self) -> None:
        """Finish the job at hand, then return from `run`."""
        self._stopping.set()

    def run(self) -> None:
        """Take and work jobs until stopped.

        Raises:
            StoreBehindError: the store knows less than a journal.
            JournalError: a journal cannot be read or written.
        """
        with Heartbeat(self._settings, self._populations) as heartbeat:
            while not self._stopping.is_set():
                try:
                    self._turn(heartbeat)
                except (FencedError, StaleVersionError) as exc:
                    # The job stays open; whoever takes it over settles what this one began.
                    self._log.warning("a job was left to another worker: %s", exc)
                except (StoreUnavailableError, StoreNotDurableError) as exc:
                    self._log.warning("the store cannot be used: %s", exc)
                    self._reconnect()

    def settle_all(self) -> None:
        """Settle every population once, as at the start."""
        for population in self._populations:
            self._writer.queue.make_queue(population)
            lease = self._acquire(population)
            if lease is not None:
                try:
                    self._spender.settle(lease)
                finally:
                    self._writer.release(lease)

    def _turn(self, heartbeat: Heartbeat) -> None:
        # Settings can change while the store runs: eviction, for one, leaves no other trace.
        if self._clock() >= self._next_check:
            self._writer.check_durable()
            self._next_check = self._clock() + _CHECK_S
        taken = self._next()
        if taken is None:
            return
        lease = self._acquire(taken.population, job=taken.job)
        if lease is None:
            return
        heartbeat.hold(lease)
        try:
            self._spender.settle(lease)
            self._spender.work(lease, taken)
        finally:
            heartbeat.hold(None)
            self._writer.release(lease)
        self._spender.catch_up()

    def _next(self) -> Taken | None:
        taken = self._writer.queue.take(
            self._populations, consumer=self._consumer, block_ms=_BLOCK_MS
        )
        if taken is not None:
            return taken
        for population in self._populations:
            idle = self._settings.lease_ms
            found = self._writer.queue.take_over(population, consumer=self._consumer, idle_ms=idle)
            if found is not None:
                return found
        return None

    def _acquire(self, population: str, *, job: str = "") -> Lease | None:
        """The lease, waited for; None only when stopping (the job is then taken over later)."""
        while not self._stopping.is_set():
            lease = self._writer.acquire(population, job=job)
            if lease is not None:
                return lease
            self._pause(_LEASE_PAUSE_S)
        return None

    def _connect(self) -> None:
        self._reader = Store.open(self._settings, role="worker-reader")
        self._writer = SpendingStore.open(self._settings)
        self._spender = Spender(
            reader=self._reader,
            writer=self._writer,
            trusted=self._trusted,
            settings=self._settings,
            log=self._log,
        )
        self.settle_all()

    def _reconnect(self) -> None:
        delay = 0.1
        while not self._stopping.is_set():
            try:
                self._connect()
            except (StoreUnavailableError, StoreNotDurableError):
                self._stopping.wait(delay)
                delay = min(2 * delay, 5.0)
            else:
                return
