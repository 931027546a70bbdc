"""Attach as an earlier version did: no seal, and a fingerprint of the order of the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from worker.owner import attach
from worker.private.present_content import read_where_it_stays
from worker.private.snapshot import Snapshot


@contextmanager
def attaching_without_seals(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What is attached within is read from its file at each start, as it was."""
    read_snapshot, entry = read_where_it_stays, attach._entry

    def unsealed(*args: Any, **options: Any) -> Snapshot:
        found = read_snapshot(*args, **options)
        return replace(found, fingerprint=found.in_order, seal=None)

    with monkeypatch.context() as earlier:
        earlier.setattr(attach, "read_where_it_stays", unsealed)
        earlier.setattr(attach, "_entry", lambda *args: replace(entry(*args), sealed=False))
        yield earlier
