"""The first part of a dataset whose data arrive over time: read before it is attached."""

from __future__ import annotations

import logging
from collections.abc import Callable

from qserver.config import Settings
from qserver.errors import ConfigError
from qserver.query.domain import Domain
from qserver.records.dataset import DatasetMeta, Growth
from worker.owner.arrivals.append import line_of, period_stop
from worker.owner.arrivals.reading import Arrived, Arriving
from worker.owner.arrivals.sealing import Sealing
from worker.private.registry import Registry, RegistryEntry
from worker.private.truncation import PersonRule


def growth_of(domain: Domain, capacity: int | None) -> Growth:
    """How a dataset of this domain grows.

    Raises:
        ConfigError: the domain has no periods, or there is no capacity.
    """
    attribute = next((a for a in domain.attributes if a.is_period), None)
    if attribute is None:
        raise ConfigError(
            "to",
            "be left out: no attribute of the domain is of kind `period`",
            hint="Give one attribute of the domain file `every`, `first` and `count`.",
        )
    if capacity is None:
        raise ConfigError(
            "capacity",
            "be given with --to: most records of one period",
            hint="It becomes public, and the time of an answer follows from it. Choose it with "
            "room, and not from the exact number of records.",
        )
    return Growth(attribute.name, capacity)


def arriving_first(
    to: str, domain: Domain, growth: Growth, person: PersonRule | None, *, key: bytes
) -> Arriving:
    """What fixes the part that seals the first periods, up to `to`; ConfigError."""
    attribute = domain.attributes[domain.names.index(growth.attribute)]
    return Arriving(domain, growth, person, key, (), 0, period_stop(attribute, to))


def seal_first(
    meta: DatasetMeta,
    first: Arrived,
    entry: RegistryEntry,
    *,
    settings: Settings,
    registry: Registry,
    say: Callable[[str], None],
) -> None:
    """Seal the first part of a dataset that was just attached; raises as `append`.

    If this dies half-way, nothing is sealed, and an append of the same file does it.
    """
    journal = registry.journal(entry.population, create=False)
    sealing = Sealing(settings, registry, journal, logging.getLogger("qserver.worker"), say)
    folder = registry.parts(entry)
    with folder.appending():
        folder.write(first.part)
        sealing.seal(meta, line_of(meta, first, key=registry.key(), sealed=()), content=None)
