"""Gauges of each population for the operator: public facts of the store, read at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qserver.storage.encoding.ledger_fields import checked, with_seals
from qserver.storage.keys import DATASETS, Keys
from qserver.storage.server.connection import StoreClient

_FIGURES = ("limit", "spent", "version")


@dataclass(frozen=True)
class PopulationGauges:
    """The state of one population.

    Args:
        limit_nano, spent_nano: in 1e-9 epsilon.
        n_charged: number of the ledger's last charge.
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


def _read(client: StoreClient, population: str) -> PopulationGauges:
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
    n_open, n_burnt, alive, *queued = found[1:]
    return PopulationGauges(
        population, limit, spent, version, sum(queued), n_open, n_burnt, worker_alive=bool(alive)
    )
