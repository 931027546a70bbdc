"""Histories with what followed them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from qserver.records.history import AnyMeasurement, Estimator, place_measurement


@dataclass(frozen=True)
class History:
    """The live measurements of one snapshot, by id, with the estimators found so far.

    The version is the number of events (measurements, refinements and estimators) that made it.
    """

    snapshot: str
    sizes: tuple[int, ...]
    measurements: tuple[AnyMeasurement, ...] = ()
    estimators: Mapping[str, tuple[Estimator, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    version: int = 0


def grown(history: History, events: Iterable[AnyMeasurement | Estimator]) -> History:
    """A history and the events that followed it; a refinement replaces what it refines.

    Raises:
        InputError: a measurement's id is beyond the next one, or it cannot be a refinement.
    """
    rows, found, version = list(history.measurements), dict(history.estimators), history.version
    for event in events:
        version += 1
        if isinstance(event, Estimator):
            found[event.key] = (*found.get(event.key, ()), event)
            continue
        place_measurement(rows, event)
    return History(history.snapshot, history.sizes, tuple(rows), MappingProxyType(found), version)
