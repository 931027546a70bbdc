"""The owner's operations on a store: replace a snapshot, raise a limit, recover.

The worker decides the order in which journal, registry and store are written:
worker/owner/rotate.py, worker/owner/changes.py, worker/owner/restore.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from qserver.errors import ConfigError, FencedError, StaleVersionError, StoreBehindError
from qserver.ledger.population import Pair, pair
from qserver.query.requirement import Measure
from qserver.records.claim import Claim
from qserver.records.dataset import DatasetMeta
from qserver.records.digest_links import Links, relinked
from qserver.storage.audit import AuditLog
from qserver.storage.charging import Lease
from qserver.storage.encoding.digests import meta_text, sealed
from qserver.storage.encoding.jobs import reply_code
from qserver.storage.encoding.queued_requests import Reservation
from qserver.storage.keys import AUDIT, DATASETS, Keys
from qserver.storage.server.connection import Scripts, StoreClient
from qserver.storage.standings import (
    Budget,
    claims_text,
    expected_text,
    measure_text,
    retired_field,
    sealed_field,
)


@dataclass(frozen=True)
class Forgotten:
    """The names of what a store forgets of a population before a replay gives it back."""

    snapshots: tuple[str, ...]
    datasets: tuple[str, ...]
    jobs: tuple[str, ...]


class OwnerOperations:
    """The owner's view of a store; shares the connection of the spending side."""

    def __init__(self, client: StoreClient, log: AuditLog) -> None:
        self._client = client
        self._scripts = Scripts(client)
        self._log = log

    def rotate(
        self,
        old: DatasetMeta,
        new: DatasetMeta,
        *,
        nonce: str,
        fence: int,
        limit_nano: int,
        public_row: str = "",
        n_sealed: int = 0,
        n_retired: int = 0,
    ) -> None:
        """Replace a dataset's snapshot, under the population's lease. Idempotent.

        Args:
            old, new: facts of the snapshots; of one dataset and population.
            nonce, fence: of the lease.
            limit_nano: the population's, for the audit log.
            n_sealed, n_retired: periods of the new snapshot, where data arrive over time.

        Raises:
            StaleVersionError: the snapshot is not `old` any more, or a reservation is open.
            FencedError: the lease passed on.
        """
        names = _rotated(new)
        args = [nonce, fence, new.name, old.snapshot, *snapshot_arguments(new, public_row)]
        marks = [str(n) if n else "" for n in (n_sealed, n_retired)]
        # To the minute where data arrive over time, as for an append.
        at = int(time.time()) // (60 if new.growth else 1) * (60 if new.growth else 1)
        code = self._log.append(
            {"kind": "dataset attached", "at": at, "limit": limit_nano}
            | {"meta": json.loads(new.to_json()), "replaces": old.snapshot},
            lambda n, entry: self._scripts.run(
                "rotate", keys=names, args=[*args, n, entry, *marks, *new.disjoint_from]
            ),
        )
        if code == 4:
            raise FencedError("The lease passed to another worker.")
        if code in (0, 3):
            raise StaleVersionError("The dataset moved on meanwhile. Rotate it again.")

    def declare_disjoint(self, population: str, pairs: Sequence[Pair]) -> int:
        """Keep pairs of snapshots without a common person; returns how many are new.

        Raises:
            StoreBehindError: the store has no such ledger.
        """
        keys = Keys(population)
        known: Any = self._client.hgetall(keys.disjoint)
        declared = {pair(*text.split(" ")) for text in known}
        new = [found for found in pairs if found not in declared]
        if not new:
            return 0
        names, texts = [keys.ledger, keys.disjoint, AUDIT], [" ".join(found) for found in new]
        code = self._log.append(
            {"kind": "people declared disjoint", "at": int(time.time())}
            | {"population": population, "pairs": [list(found) for found in new]},
            lambda n, entry: self._scripts.run("declare", keys=names, args=[n, entry, *texts]),
        )
        if code == 3:
            raise StoreBehindError("The store has no ledger of this population. Restore it first.")
        return len(new)

    def raise_limit(
        self, population: str, *, limit_nano: int, delta: Fraction | None = None
    ) -> bool:
        """Raise a population's limit; returns whether it was lower.

        Args:
            delta: at which its rho is shown as epsilon; None under pure privacy.

        Raises:
            ConfigError: the limit is higher already.
            StoreBehindError: the store has no such ledger.
        """
        keys = Keys(population)
        before: Any = self._client.hget(keys.ledger, "limit")
        before_nano = int(before or 0)
        names = [keys.ledger, AUDIT]
        code = self._log.append(
            {"kind": "limit raised", "at": int(time.time())}
            | {"population": population, "limit": limit_nano, "before": before_nano}
            | ({} if delta is None else {"delta": str(delta)}),
            lambda n, entry: self._scripts.run("top_up", keys=names, args=[limit_nano, n, entry]),
        )
        if code == 0:
            raise ConfigError("limit", "be more than the store's limit")
        if code == 3:
            raise StoreBehindError("The store has no ledger of this population. Restore it first.")
        return code == 1

    def set_measure(self, meta: DatasetMeta, measure: Measure) -> None:
        """Keep the dataset's default for `measure`. Idempotent.

        Raises:
            StaleVersionError: the dataset has another snapshot.
        """
        self._choose(meta, "measure", measure_text(measure, meta.snapshot), measure)

    def set_expected(self, meta: DatasetMeta, expected: int) -> None:
        """Keep the number of questions expected until the limit; 0 for none. Idempotent.

        Raises:
            StaleVersionError: the dataset has another snapshot.
        """
        self._choose(meta, "expected", expected_text(expected, meta.snapshot), expected)

    def set_claims(self, meta: DatasetMeta, claims: Sequence[Claim]) -> None:
        """Keep the dataset's claims from now on. Idempotent.

        Raises:
            StaleVersionError: the dataset has another snapshot.
        """
        plain = [claim.to_plain() for claim in claims]
        self._choose(meta, "claims", claims_text(claims, meta.snapshot), plain)

    def _choose(self, meta: DatasetMeta, what: str, text: str, plain: object) -> None:
        names = [Keys(meta.population).ledger, AUDIT]
        args = [meta.name, meta.snapshot, what, text]
        code = self._log.append(
            {"kind": f"{what} set", "at": int(time.time()), "population": meta.population}
            | {"dataset": meta.name, "snapshot": meta.snapshot, what: plain},
            lambda n, entry: self._scripts.run("set_choice", keys=names, args=[*args, n, entry]),
        )
        if code == 3:
            raise StaleVersionError(f"The dataset moved on meanwhile. Set its {what} again.")

    def seal(self, meta: DatasetMeta, n_sealed: int, *, lease: Lease) -> None:
        """Move the watermark: from now on so many periods have their data. Idempotent.

        Raises:
            StaleVersionError: the dataset has another snapshot, or more periods are sealed.
            FencedError: the lease passed on.
        """
        last = meta.domain.attributes[meta.period_axis].value_names[n_sealed - 1]
        self._move_mark("sealed", meta, n_sealed, {"last": last}, lease)

    def n_sealed(self, meta: DatasetMeta) -> int:
        """The number of sealed periods that the store shows of the snapshot."""
        return self._mark(sealed_field(meta.snapshot), meta)

    def retire(self, meta: DatasetMeta, n_retired: int, *, lease: Lease) -> None:
        """Mark the records of the first periods as erased; raises as `seal`. Idempotent."""
        first = meta.domain.attributes[meta.period_axis].value_names[n_retired]
        self._move_mark("retired", meta, n_retired, {"first_kept": first}, lease)

    def n_retired(self, meta: DatasetMeta) -> int:
        """The number of retired periods that the store shows of the snapshot."""
        return self._mark(retired_field(meta.snapshot), meta)

    def _mark(self, field: str, meta: DatasetMeta) -> int:
        return int(str(self._client.hget(Keys(meta.population).ledger, field) or 0))

    def _move_mark(
        self, mark: str, meta: DatasetMeta, n: int, told: dict[str, str], lease: Lease
    ) -> None:
        before = self._mark(f"{mark}:{meta.snapshot}", meta)
        if before > n:
            raise StaleVersionError(f"More periods are {mark} already.")
        if before == n:
            return
        names = [Keys(meta.population).lease, Keys(meta.population).ledger, AUDIT]
        args: list[str | int] = [lease.nonce, lease.fence, meta.name, meta.snapshot]
        args += [before, n, mark]
        code = self._log.append(
            # To the minute, as shown: seconds would tell how long the records took.
            {"kind": f"periods {mark}", "at": int(time.time()) // 60 * 60}
            | {"population": meta.population, "dataset": meta.name, "snapshot": meta.snapshot}
            | {mark: n, **told},
            lambda at, entry: self._scripts.run("seal", keys=names, args=[*args, at, entry]),
        )
        if code == 4:
            raise FencedError("The lease passed to another worker.")
        if code in (0, 3):
            raise StaleVersionError("The dataset moved on meanwhile. Try again.")

    def readmit(self, reservation: Reservation, *, population: str) -> None:
        """Give a restored store a job that it lost, in the state `running`; for a replay."""
        request = reservation.request
        self._scripts.run(
            "readmit",
            keys=[Keys(population).job(reservation.job)],
            args=[request.dataset, sealed(request.to_json(), name=reservation.job)],
        )

    def forget(self, population: str, what: Forgotten, *, nonce: str) -> None:
        """Remove what a replay gives back, in one step, under the population's lease.

        Queues, allowances, and jobs and models that cost nothing stay.

        Args:
            nonce: of the lease; '' where there is no ledger, and so no lease.

        Raises:
            FencedError: the lease passed on.
        """
        keys = Keys(population)
        names = [keys.ledger, keys.disjoint, keys.charges, keys.reservations, keys.open]
        names += [keys.burnt, keys.snapshots, *map(keys.job, what.jobs)]
        for snapshot in what.snapshots:
            names += [keys.history(snapshot), keys.paid(snapshot)]
            names += [keys.estimators(snapshot), keys.remembered(snapshot)]
        for dataset in what.datasets:
            names += [keys.dataset(dataset), keys.earlier(dataset)]
        listed: dict[Any, Any] = self._client.hgetall(DATASETS)
        # A dataset of this name may be another population's by now.
        others = {name for name, owner in listed.items() if owner != population}
        mine = [d for d in what.datasets if d not in others or not self._has_ledger(listed[d])]
        reply = self._scripts.run(
            "forget",
            keys=[keys.lease, DATASETS, *map(keys.models, what.snapshots), *names],
            args=[nonce, len(what.snapshots), len(mine), *mine, *what.jobs],
        )
        if reply_code(reply) == 4:
            raise FencedError("The lease passed to another worker.")

    def _has_ledger(self, population: str) -> bool:
        try:
            return bool(self._client.exists(Keys(population).ledger))
        except ValueError:
            return False  # No population has such a name.

    def budget(self, population: str) -> Budget:
        """Limit, spending and version of the ledger, which must exist."""
        found: Any = self._client.hmget(Keys(population).ledger, ["limit", "spent", "version"])
        return Budget(*map(int, found))

    def knows_snapshot(self, population: str, snapshot: str) -> bool:
        """Whether the ledger has a share for this snapshot, so that it was attached at some
        time."""
        return bool(self._client.hexists(Keys(population).ledger, f"spent:{snapshot}"))

    def has_snapshot(self, meta: DatasetMeta) -> bool:
        """Whether the dataset's present snapshot is the one of `meta`."""
        ledger = Keys(meta.population).ledger
        return self._client.hget(ledger, f"snapshot:{meta.name}") == meta.snapshot

    def history(self, population: str, snapshot: str) -> list[str]:
        """The events of a snapshot as the store has them, unchecked."""
        found: Any = self._client.lrange(Keys(population).history(snapshot), 0, -1)
        return list(found)

    def replace_history(
        self,
        population: str,
        snapshot: str,
        history: Links,
        *,
        nonce: str,
        fence: int,
        n_shown: int | None = None,
    ) -> None:
        """Replace a snapshot's history by linked events, under the population's lease.

        Args:
            nonce, fence: of the lease.
            n_shown: events to show; None for as many as before.

        Raises:
            FencedError: the lease passed on.
        """
        keys, shown = Keys(population), "" if n_shown is None else n_shown
        reply = self._scripts.run(
            "rechain",
            keys=[keys.lease, keys.ledger, keys.history(snapshot)],
            args=[nonce, fence, snapshot, history.head, shown, *history.texts],
        )
        if reply_code(reply) == 4:
            raise FencedError("The lease passed to another worker.")

    def public_row(self, population: str, snapshot: str) -> str:
        """The snapshot's exact public row as attach wrote it, or ''."""
        first: Any = self._client.lindex(Keys(population).history(snapshot), 0)
        is_public = first is not None and json.loads(first)["job"] == "attach"
        return str(first) if is_public else ""


def snapshot_arguments(meta: DatasetMeta, public_row: str) -> list[str | int]:
    """The facts of a new snapshot, in the order of the scripts' arguments."""
    history = relinked([public_row] if public_row else [])
    return [
        meta.snapshot,
        meta_text(meta),
        "".join(history.texts),
        "" if meta.guard_nano is None else meta.guard_nano,
        history.head,
    ]


def _rotated(new: DatasetMeta) -> list[str]:
    """The keys that a rotation reads and writes, in the order of its script."""
    keys = Keys(new.population)
    return [
        keys.lease,
        keys.ledger,
        keys.open,
        keys.dataset(new.name),
        keys.earlier(new.name),
        keys.snapshots,
        keys.history(new.snapshot),
        AUDIT,
        keys.disjoint,
    ]
