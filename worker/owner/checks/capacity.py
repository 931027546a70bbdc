"""The capacity of a dataset: the most records that it may ever have, as declared.

It is public, and the slot follows from it, so that the time of an answer does not tell the number
of records. Whatever is refused here is told to the owner alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.config import Settings
from qserver.errors import ConfigError, QServerError
from qserver.query.class_grid import MAX_TABLE_CELLS, ProductPartition, product_partition
from qserver.query.domain import Domain
from qserver.records.dataset import MOST_RECORDS
from qserver.storage.store import Store
from worker.constants import WORKER
from worker.owner.checks.population import WorkerFinding
from worker.private.record_tables import RecordTable, table_from_columns
from worker.private.registry import RegistryEntry
from worker.spending.slot import scan_slots

MAX_CAPACITY = 1 << 40
_SPREAD = 2_654_435_761
"""A large odd number: made-up codes in no order that a processor foresees."""


@dataclass(frozen=True)
class TimedScan:
    """The time of a scan of as many records as the capacity, and its slot.

    Args:
        seconds: of the scan that fills the most of its slot.
        slot_s: that slot.
    """

    seconds: float
    slot_s: float

    @property
    def holds(self) -> bool:
        """Whether the slot holds the scan, with room for a busy machine."""
        return self.seconds * WORKER.slot_share <= self.slot_s


def check_capacity(capacity: int | None, n_records: int) -> None:
    """Refuse more records than declared, or than the cap without a declaration.

    The message does not tell their number.

    Raises:
        ConfigError: there are more. For the owner's terminal only.
    """
    most = MOST_RECORDS if capacity is None else capacity
    if n_records > most:
        raise ConfigError(
            "capacity",
            "be at least the number of records in the file",
            most,
            hint="The capacity becomes public: choose it with room for later files, and not from "
            "the exact number of records.",
        )


def check_slot(
    capacity: int, domain: Domain, *, slot_ms: int, clock: Callable[[], float] = time.perf_counter
) -> None:
    """Return if the slot holds a scan of `capacity` records on this machine.

    The records are made up, so the outcome tells nothing of the private ones.

    Raises:
        ConfigError: it does not. For the owner's terminal only.
    """
    if slot_ms == 0:
        return
    found = time_scans(capacity, domain, slot_ms=slot_ms, clock=clock)
    if not found.holds:
        raise ConfigError(
            "slot_ms",
            f"be at least {needed_slot_ms(found, slot_ms)} on this machine",
            slot_ms,
            hint=f"A scan of {capacity:,} records takes {found.seconds * 1000:.1f} ms here, and "
            f"its slot of {found.slot_s * 1000:g} ms must hold {WORKER.slot_share} of them: else "
            "the time of an answer would tell the number of records. Set QSERVER_SLOT_MS for the "
            "worker and for this command, or declare a smaller --capacity.",
        )


def needed_slot_ms(found: TimedScan, slot_ms: int) -> int:
    """The setting whose slot would hold the scan."""
    return math.ceil(slot_ms * found.seconds * WORKER.slot_share / found.slot_s)


def time_scans(
    capacity: int, domain: Domain, *, slot_ms: int, clock: Callable[[], float] = time.perf_counter
) -> TimedScan:
    """Time scans of one attribute and of many; returns the one that fills most of its slot."""
    n = min(capacity, WORKER.timed_records)
    table = _made_up(n, domain.sizes)
    found = []
    for partition in _probes(domain.sizes):
        seconds = min(_seconds(table, partition, clock) for _ in range(WORKER.timed_scans))
        slots = math.ceil(scan_slots(len(partition.axes) + 1, capacity=capacity))
        found.append(TimedScan(seconds * capacity / n, slots * slot_ms / 1000))
    return max(found, key=lambda timed: timed.seconds / timed.slot_s)


def slot_finding(entry: RegistryEntry, settings: Settings) -> WorkerFinding:
    """Whether slots hold scans of the declared capacity; none declared is no fault."""
    check = f"slot of {entry.name}"
    if entry.spark is not None:
        text = f"{entry.spark['slot_s']:g} s for each count on Spark, as declared"
        return WorkerFinding(check, ok=settings.slot_ms > 0, text=text)
    try:
        meta = Store.open(settings, role="worker-doctor").meta(entry.name)
    except QServerError as exc:
        return WorkerFinding(check, ok=False, text=str(exc))
    capacity = meta.capacity if meta.growth is None else meta.growth.capacity
    if capacity is None:
        text = (
            f"no capacity is declared: where a scan takes more than {settings.slot_ms} ms, the "
            "time of answers tells how many records there are. See `attach --capacity`"
        )
        return WorkerFinding(check, ok=True, text=text)
    if settings.slot_ms == 0:
        return WorkerFinding(check, ok=False, text="QSERVER_SLOT_MS is 0: times are not rounded up")
    found = time_scans(capacity, meta.domain, slot_ms=settings.slot_ms)
    scan = f"a scan of {capacity:,} records takes {found.seconds * 1000:.1f} ms"
    if found.holds:
        return WorkerFinding(check, ok=True, text=f"{scan} of {found.slot_s * 1000:g}")
    needed = needed_slot_ms(found, settings.slot_ms)
    text = f"{scan}, too long for {found.slot_s * 1000:g}: set QSERVER_SLOT_MS to {needed} or more"
    return WorkerFinding(check, ok=False, text=text)


def _seconds(table: RecordTable, partition: ProductPartition, clock: Callable[[], float]) -> float:
    begun = clock()
    table.counts(partition)
    return clock() - begun


def _made_up(n: int, sizes: Sequence[int]) -> RecordTable:
    places = np.arange(n, dtype=np.uint64) * np.uint64(_SPREAD)
    columns = {i: (places >> np.uint64(i % 16 + 8)) % np.uint64(s) for i, s in enumerate(sizes)}
    return table_from_columns(columns, sizes)


def _probes(sizes: Sequence[int]) -> list[ProductPartition]:
    """The widest attribute by its values, and all attributes in two parts each."""
    widest = max(range(len(sizes)), key=lambda i: sizes[i])
    n_parts = min(sizes[widest], MAX_TABLE_CELLS)
    fine = {widest: [value % n_parts for value in range(sizes[widest])]}
    most = int(math.log2(MAX_TABLE_CELLS))
    halves = {i: [value % 2 for value in range(s)] for i, s in enumerate(sizes[:most]) if s > 1}
    return [product_partition(sizes, fine), product_partition(sizes, halves)]
