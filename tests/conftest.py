"""What all tests share: hypothesis without a clock, and one real, durable server, emptied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.embedded_store import EmbeddedServer

# How long an example takes tells of the machine. All else stays as hypothesis has it: under CI the
# examples are the same in every run.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.fixture(scope="session")
def store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The embedded server of this test run. Tests that harm a server start their own."""
    with EmbeddedServer.start(tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture
def store_url(store_server: EmbeddedServer) -> str:
    """URL of the server, emptied."""
    client = connect(store_server.url, role="test")
    client.flushall()
    client.script_flush()
    client.close()
    return store_server.url


@pytest.fixture
def redis_client(store_url: str) -> Iterator[StoreClient]:
    """A pooled client of the emptied server."""
    client = connect(store_url, role="test")
    yield client
    client.close()


@pytest.fixture
def single_client(store_url: str) -> Iterator[StoreClient]:
    """A single-connection client of the emptied server, as the worker uses for writes."""
    client = connect(store_url, role="test", single_connection=True)
    yield client
    client.close()


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """A state folder of the test's own."""
    return tmp_path / "state"
