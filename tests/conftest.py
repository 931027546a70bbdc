"""What all tests share: stages, sweeps, examples without a clock, one real server, emptied."""

from __future__ import annotations

import os

# numpy reads it once, when it loads. Runs are side by side already, and a sum made by several
# threads is another sum.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.stages import OF_STAGES, is_fast, is_shared_out, may_be_fast
from tests.sweeps import WHOLE, is_whole

# How long an example takes tells of the machine. All else stays as hypothesis has it: under CI the
# examples are the same in every run.
settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20
)
settings.register_profile("whole", settings.get_profile("suite"), max_examples=100)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--whole`."""
    parser.addoption("--whole", action="store_true", help="make all of every sweep, see sweeps.py")


def pytest_configure(config: pytest.Config) -> None:
    """A whole run says so to all processes, before any test is read."""
    if config.option.whole:
        os.environ[WHOLE] = "1"
        settings.load_profile("whole")


# Before pytest-xdist reads its own options.
@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Share a whole run out among the cores; what is left over goes to whoever is done first."""
    if is_shared_out(config):
        # Tests that start programs wait a quarter of their time, so one more than cores.
        config.option.numprocesses, config.option.dist = (os.cpu_count() or 1) + 1, "worksteal"


# First, so that the choice by `-m` sees the marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the first stage, and leave out what only a whole run makes."""
    if not is_whole():
        left_out = [item for item in items if item.get_closest_marker("whole")]
        items[:] = [item for item in items if not item.get_closest_marker("whole")]
        config.hook.pytest_deselected(items=left_out)
    for item in items:
        if isinstance(item, pytest.Function) and is_fast(item):
            item.add_marker("fast")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing for a stage that does not belong to it."""
    is_left_out = config.option.markexpr == "fast" and not may_be_fast(collection_path)
    stage = OF_STAGES.get(collection_path.name)
    is_left_out |= stage is not None and config.option.markexpr != stage
    return True if is_left_out else None  # None: let others decide


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
