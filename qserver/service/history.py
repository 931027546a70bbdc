"""The releases of a dataset: of its present snapshot and of earlier ones.

And whether it is as it was published, which the readiness of a process asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from threading import Lock

from qserver.errors import NotFoundError
from qserver.records.dataset import DatasetMeta
from qserver.records.history import (
    AnyMeasurement,
    HistoryPage,
    HistoryRow,
    HistoryTable,
    TableMeasurement,
)
from qserver.service.cache.last_used import LastUsed
from qserver.service.datasets import OpenDatasets
from qserver.storage.histories import FrozenHistory, read_history
from qserver.storage.store import Store

MAX_PAGE_RUNS = 1 << 17
"""Most runs of weights and of partitions on one page of more than one row or table."""

_MOST_FROZEN = 8


class ReleasedHistory:
    """Released rows and tables. Thread-safe."""

    def __init__(self, store: Store, datasets: OpenDatasets) -> None:
        self._store = store
        self._datasets = datasets
        # A replaced snapshot never changes: its history is read once.
        self._frozen = LastUsed[str, FrozenHistory](_MOST_FROZEN)

    def page(
        self, name: str, *, after: int, limit: int, snapshot: str | None = None
    ) -> HistoryPage:
        """At most `limit` released rows and tables with an id above `after`; NotFoundError.

        The page ends earlier where more would have more than `MAX_PAGE_RUNS` runs.

        Args:
            snapshot: the present one if None; else the present one or one that was replaced.
        """
        history, meta = self._of(name, snapshot), self._datasets.meta(name)
        found = _fitting(history.measurements[after + 1 : after + 1 + limit])
        rows = tuple(_released(m, meta, with_values=False) for m in found)
        last = after + len(rows)
        more = rows and last + 1 < len(history.measurements)
        return HistoryPage(rows, history.version, last if more else None)

    def measurement(
        self, name: str, number: int, *, snapshot: str | None = None
    ) -> HistoryRow | HistoryTable:
        """One released row or table, with its values; NotFoundError."""
        found = self._of(name, snapshot).measurements[number : number + 1]
        if not found:
            raise NotFoundError("measurement", str(number))
        return _released(found[0], self._datasets.meta(name), with_values=True)

    def _of(self, name: str, snapshot: str | None) -> FrozenHistory:
        """The releases of a snapshot so far; NotFoundError."""
        opened = self._datasets.refresh(name)
        if snapshot not in (None, opened.meta.snapshot):
            return self._replaced(opened.meta, str(snapshot))
        with opened.lock:
            measurements = tuple(opened.replica.measurements)
            return FrozenHistory(measurements, opened.replica.present.n_shown)

    def _replaced(self, meta: DatasetMeta, snapshot: str) -> FrozenHistory:
        frozen = self._store.frozen.meta(meta, snapshot)
        return self._frozen.get(snapshot, lambda: self._store.frozen.history(frozen))


def _fitting(found: Sequence[AnyMeasurement]) -> Sequence[AnyMeasurement]:
    """The first of these that fit one page; at least one."""
    n_runs = accumulate(map(_n_runs, found))
    n_fitting = sum(1 for n in n_runs if n <= MAX_PAGE_RUNS)
    return found[: max(1, n_fitting)]


def _n_runs(found: AnyMeasurement) -> int:
    if isinstance(found, TableMeasurement):
        return sum(len(axis.stops) for axis in found.partition.axes)
    return found.row.n_runs


def _released(
    found: AnyMeasurement, meta: DatasetMeta, *, with_values: bool
) -> HistoryRow | HistoryTable:
    if isinstance(found, TableMeasurement):
        return HistoryTable(
            id=found.id,
            axes=found.partition.to_document(),
            n_cells=found.partition.n_cells,
            key=found.key,
            scale=meta.law.shown_scale(found.alpha_nano),
            alpha_nano=meta.shown.nano(found.alpha_nano),
            step=str(found.step),
            values=tuple(found.values.ravel().tolist()) if with_values else None,
        )
    return HistoryRow(
        id=found.id,
        terms=found.row.to_document(),
        key=found.key,
        value=float(found.value),
        scale=meta.law.shown_scale(found.alpha_nano) if found.alpha_nano else 0.0,
        alpha_nano=meta.shown.nano(found.alpha_nano),
        step=str(found.step),
    )


CHECKED_S = 30.0
"""Seconds for which a whole history, found to be right, is not read again."""


class Integrity:
    """Checks whole histories, each at intervals.

    A replica checks every event that it reads, once. Only here events are read again, so that a
    later change is noticed before a process that starts meets it.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._right_at: dict[str, float] = {}

    def check(self) -> None:
        """Return if the history of every dataset is whole.

        Raises:
            StoreCorruptError: one was changed since it was published.
        """
        for name in sorted(self._store.datasets()):
            try:
                self._check(name)
            except NotFoundError:
                continue  # detached between the two readings

    def _check(self, name: str) -> None:
        meta, now = self._store.meta(name), self._clock()
        with self._lock:
            right_at = self._right_at.get(meta.snapshot)
        if right_at is not None and now - right_at < CHECKED_S:
            return
        read_history(self._store.client, meta)
        with self._lock:
            self._right_at[meta.snapshot] = now
