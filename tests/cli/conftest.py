"""The fake server of the commands' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.fake_server import FakeServer, running_server


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server that answers as a test tells it to."""
    with running_server() as fake:
        yield fake
