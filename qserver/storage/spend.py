"""The store for the worker: lease, reserve, publish, burn, acknowledge.

Every method is one script, so one atomic step, for a whole group of jobs where it takes one.
docs/protocol.md has the checks of each, and their order.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from qserver.config import Settings
from qserver.errors import (
    ConfigError,
    NotFoundError,
    StoreBehindError,
)
from qserver.records.dataset import DatasetMeta
from qserver.storage.audit import AuditLog
from qserver.storage.charging import (
    Charging,
    Lease,
    Publishing,
    PublishOutcome,
    publish,
    refuse_fenced,
    reserve,
)
from qserver.storage.encoding.jobs import reply_code
from qserver.storage.encoding.queued_requests import Reservation
from qserver.storage.histories import ModelStore
from qserver.storage.keys import AUDIT, DATASETS, Keys
from qserver.storage.owner import OwnerOperations, snapshot_arguments
from qserver.storage.queue import Ended, Endings, JobQueue
from qserver.storage.server.connection import Scripts, StoreClient, check_server, connect
from qserver.storage.server.durability import (
    await_durable,
    check_durable,
    check_failover,
)
from qserver.storage.store import check_schema


class SpendingStore:
    """The store for the worker; one connection, so for one thread."""

    def __init__(self, client: StoreClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._scripts = Scripts(client)
        self.audit = AuditLog(client)
        self.models = ModelStore(client)
        self.queue = JobQueue(client)
        self.endings = Endings(client)
        self.owner = OwnerOperations(client, self.audit)

    @classmethod
    def open(cls, settings: Settings) -> SpendingStore:
        """The store at `settings.store_url`; refused unless it keeps acknowledged writes.

        Raises:
            StoreError: it cannot be reached, is too old, may lose or evict charges.
        """
        client = connect(settings.store_url, role="worker", single_connection=True)
        check_server(client)
        found = cls(client, settings)
        found.check_durable()
        check_schema(client)
        return found

    def check_durable(self) -> None:
        """Raise StoreNotDurableError unless the store still keeps acknowledged writes."""
        check_durable(self._client, allow_volatile=self._settings.allow_volatile)
        check_failover(self._client, replicas=self._settings.replicas)

    def await_durable(self, *, own_writes: bool = True) -> None:
        """Return once writes are on disk and on the configured replicas.

        Args:
            own_writes: the writes of this connection only; False for all that it can have seen.

        Raises:
            StoreNotDurableError: they are not, in time.
        """
        await_durable(
            self._client,
            replicas=self._settings.replicas,
            timeout_ms=self._settings.durable_timeout_ms,
            covers="own_writes" if own_writes else "all_writes",
            allow_volatile=self._settings.allow_volatile,
        )

    def attach(self, meta: DatasetMeta, *, limit_nano: int, public_row: str = "") -> None:
        """Register a dataset and its population's limit.

        Raises:
            ConfigError: the name is taken, or the population has another limit or relation.
        """
        keys = Keys(meta.population)
        names = [DATASETS, keys.ledger, keys.dataset(meta.name), keys.history(meta.snapshot)]
        names += [AUDIT, keys.disjoint]
        args: list[str | int] = [
            meta.name,
            meta.population,
            limit_nano,
            meta.relation,
            *snapshot_arguments(meta, public_row),
        ]
        code = self.audit.append(
            {"kind": "dataset attached", "at": int(time.time()), "limit": limit_nano}
            | {"meta": json.loads(meta.to_json())},
            lambda n, entry: self._scripts.run(
                "attach", keys=names, args=[*args, n, entry, *meta.disjoint_from]
            ),
        )
        if code == 0:
            raise ConfigError("name", "not be attached already", meta.name)
        if code == 2:
            raise ConfigError("limit", f"be the limit that population {meta.population} has")
        if code == 3:
            raise ConfigError("neighbours", f"be the relation that {meta.population} has")

    def detach(self, name: str, *, population: str, snapshot: str) -> None:
        """Take a dataset off the list; its spending stays.

        Raises:
            NotFoundError: there is none of this name.
        """
        keys = Keys(population)
        names = [DATASETS, keys.ledger, keys.dataset(name), AUDIT]
        facts = {"kind": "dataset detached", "at": int(time.time()), "dataset": name}
        code = self.audit.append(
            facts | {"population": population, "snapshot": snapshot},
            lambda n, entry: self._scripts.run("detach", keys=names, args=[name, n, entry]),
        )
        if code == 0:
            raise NotFoundError("dataset", name)

    def is_attached(self, name: str) -> bool:
        """Whether a dataset of this name is registered."""
        return bool(self._client.hexists(DATASETS, name))

    def has_ledger(self, population: str) -> bool:
        """Whether the population has a ledger in this store."""
        return bool(self._client.exists(Keys(population).ledger))

    def acquire(
        self, population: str, *, jobs: Sequence[str] = (), holder: str = ""
    ) -> Lease | None:
        """The population's lease, or None while another worker holds it.

        Args:
            jobs: the jobs to work on; their state becomes `running`.
            holder: the worker that takes it, for `see_off`.

        Raises:
            StoreBehindError: the store has no such ledger any more.
        """
        keys = Keys(population)
        nonce = f"{holder}/{secrets.token_hex(16)}"
        reply = self._scripts.run(
            "acquire",
            keys=[keys.lease, keys.ledger, *map(keys.job, jobs)],
            args=[nonce, self._settings.lease_ms],
        )
        code = reply_code(reply)
        if code == 2:
            raise StoreBehindError(
                "The store has no ledger of this population. Restore it before anything is drawn."
            )
        return Lease(population, nonce, int(reply[1])) if code == 1 else None

    def release(self, lease: Lease) -> None:
        """Give the lease back, unless it has passed on."""
        self._scripts.run("release", keys=[Keys(lease.population).lease], args=[lease.nonce])

    def give_back(self, population: str, holder: str) -> None:
        """Give back any lease of a worker that lost track of it.

        What it sent under that lease and is still on its way will be refused.
        """
        nonce = str(self._client.get(Keys(population).lease) or "")
        if nonce.startswith(f"{holder}/"):
            self._scripts.run("release", keys=[Keys(population).lease], args=[nonce])

    def see_off(self, population: str, holder: str) -> None:
        """Give back a dead worker's lease, and its jobs to the next taker."""
        self.give_back(population, holder)
        self.queue.give_up(population, consumer=holder, idle_ms=self._settings.lease_ms)
        self.queue.leave([population], worker=holder)

    def renew(self, lease: Lease) -> bool:
        """Renew the lease; False if it has passed on."""
        reply = self._scripts.run(
            "renew",
            keys=[Keys(lease.population).lease],
            args=[lease.nonce, self._settings.lease_ms],
        )
        return reply_code(reply) == 1

    def ledger_version(self, population: str) -> int:
        """The ledger's version."""
        return int(self._client.hget(Keys(population).ledger, "version") or 0)

    def limit_nano(self, population: str) -> int:
        """The population's limit."""
        return int(self._client.hget(Keys(population).ledger, "limit") or 0)

    def knows_reservation(self, population: str, job: str) -> bool:
        """Whether the store has the reservation of a job."""
        return bool(self._client.hexists(Keys(population).reservations, job))

    def reservation(self, population: str, job: str) -> Reservation | None:
        """The reservation of a job, or None."""
        text: Any = self._client.hget(Keys(population).reservations, job)
        return None if text is None else Reservation.from_json(str(text))

    def open_reservations(self, population: str) -> list[str]:
        """Jobs whose reservation is neither published nor burnt."""
        found: Any = self._client.hkeys(Keys(population).open)
        return [str(job) for job in found]

    def reserved_jobs(self, population: str) -> frozenset[str]:
        """All jobs that were ever reserved."""
        known: Any = self._client.hkeys(Keys(population).reservations)
        return frozenset(known)

    def published_jobs(self, population: str) -> frozenset[str]:
        """The reserved jobs that are not open; some may be burnt."""
        return self.reserved_jobs(population) - frozenset(self.open_reservations(population))

    def reserve(
        self,
        lease: Lease,
        group: Sequence[Charging],
        *,
        ledger_version: int,
        again: bool = False,
    ) -> int:
        """Charge a group of reservations, all or none; returns the ledger's version afterwards.

        Each raises it by one.

        Args:
            ledger_version: that the first was planned on.
            again: a restored store is given a charge that it had; its guard was checked then.

        Raises:
            BudgetExhaustedError: the limit would be passed, or a snapshot's guard.
            StaleVersionError: the ledger changed since the plan, or a job was reserved before.
            FencedError: the lease passed on.
        """
        return reserve(self._scripts, lease, group, ledger_version=ledger_version, again=again)

    def publish(self, lease: Lease, group: Sequence[Publishing]) -> list[PublishOutcome]:
        """Attach a group's released lattice indices to the histories, in order; idempotent by job.

        Raises:
            FencedError: the lease passed on.
            StaleVersionError: a history has another length than planned on.
            StoreCorruptError: a history is not the one that the journal has, or has no chain.
            StoreBehindError: the store does not know a reservation.
        """
        return publish(self._client, self._scripts, lease, group)

    def n_history(self, population: str, snapshot: str) -> int:
        """Number of events in a snapshot's history, including hidden ones."""
        return int(self._client.llen(Keys(population).history(snapshot)))

    def heads(self, population: str) -> Mapping[str, str | None]:
        """Snapshot -> digest of its history's last event; None where an earlier version wrote."""
        found: Any = self._client.hgetall(Keys(population).ledger)
        snapshots = [name[6:] for name in found if name.startswith("spent:")]
        return {snapshot: found.get(f"head:{snapshot}") for snapshot in snapshots}

    def burn(self, lease: Lease, job: str) -> None:
        """Give up an open reservation for ever; its charge stays.

        Raises:
            FencedError: the lease passed on.
        """
        keys = Keys(lease.population)
        reply = self._scripts.run(
            "burn",
            keys=[keys.lease, keys.ledger, keys.open, keys.burnt],
            args=[job, lease.nonce, lease.fence],
        )
        refuse_fenced(reply_code(reply))

    def acknowledge(self, group: Sequence[Ended]) -> None:
        """End a group's jobs and show their rows; an earlier outcome stands.

        Raises:
            StoreNotDurableError: an outcome is not durable in time; nobody has seen any.
        """
        if not group:
            return
        concluded = self.endings.conclude(group)
        self.await_durable(own_writes=all(ending.is_new for ending in concluded))
        taken = [one.taken for one in group]
        self.endings.show([Ended(t, c.outcome) for t, c in zip(taken, concluded, strict=True)])
