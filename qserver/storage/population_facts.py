"""Public facts of a population, as the store has them at one moment.

`StoredFacts` are those that fix a price; gauges are for the operator.

Find the powers of a store's user beyond its role, without using them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import redis

from qserver.errors import StoreError, StoreUnavailableError
from qserver.records.dataset import DatasetMeta
from qserver.records.privacy.conversion import Shown
from qserver.storage.encoding.digests import checked, checked_fields, unsealed, with_seals
from qserver.storage.keys import ACCOUNTS, AUDIT, DATASETS, TOKENS, Keys
from qserver.storage.server.connection import ForbiddenError, StoreClient


@dataclass(frozen=True)
class StoredFacts:
    """The store's copy of a population's facts.

    Args:
        ledger: fields of the ledger: limit, relation, shares, guards, present snapshots.
        pairs: snapshots with no person in common, two names each.
        metas: the facts of attached datasets as the store keeps them, by name.
        listed: datasets that the store's list of datasets gives to this population.
        n_jobs: number of jobs that were charged.
        open_jobs: those that are neither published nor burnt.
        jobs: all of them by name, where they were asked for.
        paid: the paid questions of attached snapshots, likewise.
    """

    ledger: Mapping[str, str]
    pairs: tuple[str, ...]
    metas: Mapping[str, str]
    listed: frozenset[str]
    n_jobs: int
    open_jobs: frozenset[str]
    jobs: frozenset[str] | None = None
    paid: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        client: StoreClient,
        population: str,
        *,
        with_jobs: bool = False,
    ) -> StoredFacts:
        """The facts of a population and of all its attached datasets.

        Raises:
            StoreCorruptError: a figure of the ledger was changed.
        """
        keys = Keys(population)
        fields: Any = client.hkeys(keys.ledger)
        datasets = [name[9:] for name in fields if name.startswith("snapshot:")]
        pipe = client.pipeline(transaction=True)
        pipe.hgetall(keys.ledger)
        pipe.hkeys(keys.disjoint)
        pipe.hlen(keys.reservations)
        pipe.hkeys(keys.open)
        for name in datasets:
            pipe.hget(keys.dataset(name), "meta")
        pipe.hgetall(DATASETS)
        if with_jobs:
            pipe.hkeys(keys.reservations)
        found: Any = pipe.execute()
        paid = cls._read_paid(client, keys, found[0]) if with_jobs else {}
        metas, listed = dict(zip(datasets, found[4:], strict=False)), found[4 + len(datasets)]
        return cls(
            ledger=checked_fields(found[0]),
            pairs=tuple(found[1]),
            metas={name: str(text) for name, text in metas.items() if text is not None},
            listed=frozenset(name for name, owner in listed.items() if owner == population),
            n_jobs=int(found[2]),
            open_jobs=frozenset(found[3]),
            jobs=frozenset(found[-1]) if with_jobs else None,
            paid=paid,
        )

    @staticmethod
    def _read_paid(
        client: StoreClient, keys: Keys, ledger: Mapping[str, str]
    ) -> dict[str, tuple[str, ...]]:
        snapshots = [s for name, s in ledger.items() if name.startswith("snapshot:")]
        found: Any = [client.lrange(keys.paid(snapshot), 0, -1) for snapshot in snapshots]
        return dict(zip(snapshots, map(tuple, found), strict=True))


_FIGURES = ("limit", "spent", "version")


@dataclass(frozen=True)
class PopulationGauges:
    """The state of one population.

    Args:
        limit_nano, spent_nano: as they are shown, in 1e-9 epsilon.
        n_charged: reservations, each of which may charge several rows.
        n_queued: questions that wait or are being worked.
        n_open: charges without an answer yet.
        n_burnt: charges that will never have an answer.
    """

    population: str
    limit_nano: int
    spent_nano: int
    n_charged: int
    n_queued: int
    n_open: int
    n_burnt: int
    worker_alive: bool


def read_gauges(client: StoreClient) -> list[PopulationGauges]:
    """The gauges of every population with a dataset, by name."""
    names = sorted({str(name) for name in client.hvals(DATASETS)})
    return [_read(client, name) for name in names]


def shown_of(client: StoreClient, population: str) -> Shown:
    """How losses of a population are shown, as one of its datasets says."""
    listed: Any = client.hgetall(DATASETS)
    for name, owner in listed.items():
        text = client.hget(Keys(population).dataset(name), "meta") if owner == population else None
        if text is not None:
            return DatasetMeta.from_json(unsealed(str(text), name=name)).shown
    return Shown()


def _read(client: StoreClient, population: str) -> PopulationGauges:
    shown = shown_of(client, population)
    keys = Keys(population)
    queues: Any = client.smembers(keys.queues)
    pipe = client.pipeline(transaction=True)
    pipe.hmget(keys.ledger, with_seals(_FIGURES))
    pipe.hlen(keys.open)
    pipe.hlen(keys.burnt)
    pipe.exists(keys.alive)
    for dataset in queues:
        pipe.xlen(keys.jobs(str(dataset)))
    found: list[Any] = pipe.execute()
    limit, spent, version = (int(value or 0) for value in checked(_FIGURES, found[0]))
    limit, spent = shown.nano(limit), shown.nano(spent)
    n_open, n_burnt, alive, *queued = found[1:]
    return PopulationGauges(
        population,
        limit,
        spent,
        version,
        sum(queued),
        n_open,
        n_burnt,
        worker_alive=bool(alive),
    )


Role = Literal["web", "worker"]
# No population can have this name, so no data have these keys; rules for users go by pattern.
_NOBODYS = Keys("qserver doctor")
_NOTHING = "qserver doctor"


@dataclass(frozen=True)
class _Power:
    """A command that changes nothing, and the power that permission for it means."""

    words: str
    command: tuple[str, ...]
    roles: tuple[Role, ...]


_POWERS = (
    _Power("write the ledger", ("EXPIRE", _NOBODYS.ledger, "1"), ("web",)),
    _Power("write charges", ("EXPIRE", _NOBODYS.charges, "1"), ("web",)),
    _Power("write answers", ("EXPIRE", _NOBODYS.history("s"), "1"), ("web",)),
    _Power("shorten the audit log", ("LTRIM", AUDIT, "0", "-1"), ("web",)),
    _Power("write accounts", ("HDEL", ACCOUNTS, _NOTHING), ("web", "worker")),
    _Power("write tokens", ("HDEL", TOKENS, _NOTHING), ("web", "worker")),
    _Power("change settings", ("CONFIG", "SET", _NOTHING, "1"), ("web", "worker")),
    _Power("remove users", ("ACL", "DELUSER", _NOTHING), ("web", "worker")),
)


def forbidden_powers(client: StoreClient, *, role: Role) -> list[str]:
    """The powers of the client's user that its role never needs, in words; empty if all is well.

    Each command is tried without effect: on a key, field, setting or user that does not exist. The
    server refuses a forbidden command before it looks at that.

    Raises:
        StoreUnavailableError: the server does not answer.
    """
    return [p.words for p in _POWERS if role in p.roles and _may(client, p.command)]


def _may(client: StoreClient, command: tuple[str, ...]) -> bool:
    try:
        client.execute_command(*command)
    except StoreUnavailableError:
        raise
    except ForbiddenError:
        return False
    except (redis.ResponseError, StoreError):
        # The command was allowed; its arguments were wrong.
        return True
    return True
