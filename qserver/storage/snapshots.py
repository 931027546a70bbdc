"""Replaced snapshots: their facts and their frozen histories, for reading only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qserver.errors import NotFoundError
from qserver.records.dataset import DatasetMeta
from qserver.records.history import AnyMeasurement
from qserver.storage.encoding.metas import read_meta
from qserver.storage.encoding.records import measurements_in_force
from qserver.storage.encoding.sealed import reading
from qserver.storage.history_chain import read_history
from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient


@dataclass(frozen=True)
class FrozenHistory:
    """The released answers of a replaced snapshot.

    Args:
        version: events of the history, refinements included.
    """

    measurements: tuple[AnyMeasurement, ...]
    version: int


class FrozenSnapshots:
    """The replaced snapshots of a store. Thread-safe as its client is."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client

    def ids(self, meta: DatasetMeta) -> tuple[str, ...]:
        """Ids of a dataset's replaced snapshots, oldest first."""
        found: Any = self._client.lrange(Keys(meta.population).earlier(meta.name), 0, -1)
        return tuple(found)

    def meta(self, meta: DatasetMeta, snapshot: str) -> DatasetMeta:
        """The facts of a replaced snapshot of a dataset.

        Args:
            meta: the dataset's present facts.

        Raises:
            NotFoundError: the dataset had no such snapshot.
        """
        text: Any = self._client.hget(Keys(meta.population).snapshots, snapshot)
        if text is None or snapshot not in self.ids(meta):
            raise NotFoundError("snapshot", snapshot)
        return read_meta(text, name=meta.name)

    def history(self, frozen: DatasetMeta) -> FrozenHistory:
        """The released answers of a replaced snapshot, in the order of ids; they never change."""
        texts = read_history(self._client, frozen)
        with reading("released answers"):
            found = measurements_in_force(texts, sizes=frozen.domain.sizes)
        return FrozenHistory(tuple(found), len(texts))
