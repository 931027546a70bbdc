"""Where the tests of the journal keep theirs."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a journal that is not there yet."""
    return tmp_path / "people.journal"
