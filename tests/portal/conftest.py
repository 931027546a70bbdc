"""Browsers on the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from qserver.portal.pages import ask
from tests.portal.portal_site import Browser, open_browser


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker works when a test says so: nothing is to be waited for."""
    monkeypatch.setattr(ask, "STEPS_WAIT_S", ask.NO_TIME_S)


@pytest.fixture
def browser(tmp_path: Path, store_url: str) -> Browser:
    """A browser on an open server."""
    return open_browser(tmp_path, store_url, is_open=True)


@pytest.fixture
def guarded(tmp_path: Path, store_url: str) -> Browser:
    """A browser on a server with accounts, signed in as nobody."""
    return open_browser(tmp_path, store_url, is_open=False)
