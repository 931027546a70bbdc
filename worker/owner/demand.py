"""Whose questions a new snapshot is planned for: those of earlier data, which are public."""

from __future__ import annotations

from qserver.errors import ConfigError
from qserver.planning.constants import PLANNER
from qserver.query.domain import Domain
from qserver.records.dataset import DatasetMeta
from qserver.storage.store import Store

DemandOf = tuple[tuple[str, int], ...]


def demand_of(earlier: DatasetMeta, reader: Store) -> DemandOf:
    """What a snapshot after this one begins with: its paid questions, and what it began with.

    The oldest are left out as soon as later ones are as many as count.
    """
    kept, n_kept = list[tuple[str, int]](), 0
    for snapshot, n in ((earlier.snapshot, reader.n_paid(earlier)), *reversed(earlier.demand_of)):
        if n and n_kept < PLANNER.most_earlier:
            kept.append((snapshot, n))
            n_kept += n
    return tuple(reversed(kept))


def demand_of_dataset(name: str, *, population: str, domain: Domain, reader: Store) -> DemandOf:
    """What a new dataset begins with if its owner names another one.

    Raises:
        NotFoundError: there is no such dataset.
        ConfigError: it is of another population or domain.
    """
    earlier = reader.meta(name)
    if earlier.population != population or earlier.domain != domain:
        raise ConfigError("demand_of", f"be a dataset of population {population} and this domain")
    return demand_of(earlier, reader)
