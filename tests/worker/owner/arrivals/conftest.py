"""What tests of arrivals share."""

from __future__ import annotations

import pytest


@pytest.fixture
def full_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands find that a minute is just full, and wait for none."""
    monkeypatch.setattr("worker.owner.arrivals.sealing.wait_for_minute", lambda *_: None)
    monkeypatch.setattr("worker.owner.rotate.wait_for_minute", lambda *_: None)
