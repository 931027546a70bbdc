"""Both sides of a store that has one dataset."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qserver.config import Settings
from qserver.storage.charging import Lease
from qserver.storage.spend import SpendingStore
from qserver.storage.store import Store
from tests.storage.one_dataset import LIMIT, META


@pytest.fixture
def settings(store_url: str) -> Settings:
    return Settings(redis_url=store_url, lease_ms=60_000)


@pytest.fixture
def writer(settings: Settings) -> SpendingStore:
    store = SpendingStore.open(settings)
    store.attach(META, limit_nano=LIMIT)
    store.queue.make_queue("town")
    return store


@pytest.fixture
def reader(settings: Settings, writer: SpendingStore) -> Store:
    return Store.open(settings)


@pytest.fixture
def lease(writer: SpendingStore) -> Iterator[Lease]:
    held = writer.acquire("town")
    assert held is not None
    yield held
    writer.release(held)
