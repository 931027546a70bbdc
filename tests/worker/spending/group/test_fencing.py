"""Faults that come from another worker's going on are told from those of the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.errors import FencedError, StoreCorruptError
from tests.deployment import Deployment
from worker.spending.presence import while_held


def test_a_fault_is_a_passed_lease_just_where_another_worker_holds_it(
    tmp_path: Path, store_url: str
) -> None:
    town = Deployment.make(tmp_path, store_url)
    writer = town.writer()
    lease = writer.acquire("town")
    assert lease is not None
    with pytest.raises(StoreCorruptError), while_held(writer, lease, StoreCorruptError):
        raise StoreCorruptError("a byte changed")
    writer.release(lease)
    assert writer.acquire("town") is not None
    with pytest.raises(FencedError), while_held(writer, lease, StoreCorruptError):
        raise StoreCorruptError("a byte changed")
    with pytest.raises(ValueError, match="else"), while_held(writer, lease, StoreCorruptError):
        raise ValueError("something else")
