"""Histories of replaced snapshots as this process has read them."""

from __future__ import annotations

import threading
from collections import OrderedDict

from qserver.records.dataset import DatasetMeta
from qserver.storage.snapshots import FrozenHistory
from qserver.storage.store import Store

_MOST = 8


class FrozenHistories:
    """The histories last asked for. They never change, so they are read once. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, FrozenHistory] = OrderedDict()

    def get(self, meta: DatasetMeta, snapshot: str) -> FrozenHistory:
        """The history of a replaced snapshot of a dataset; NotFoundError.

        Args:
            meta: the dataset's present facts.
        """
        frozen = self._store.frozen.meta(meta, snapshot)
        with self._lock:
            found = self._kept.get(snapshot)
        if found is None:
            found = self._store.frozen.history(frozen)
        with self._lock:
            self._kept[snapshot] = found
            self._kept.move_to_end(snapshot)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return found
