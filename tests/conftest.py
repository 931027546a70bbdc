"""What all tests share: stages, sweeps, budgets, one real server, emptied."""

from __future__ import annotations

import gc
import os

# numpy reads it once, when it loads. Runs are side by side already, and a sum made by several
# threads is another sum.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from flask import Flask
from hypothesis import HealthCheck, settings
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket

from qserver.storage.server.connection import StoreClient, connect
from qserver.storage.server.embedded_store import EmbeddedServer
from tests.budget import budget as budget
from tests.stages import NOT_SLOW, OF_STAGES, is_shared_out, left_out_of_slow, n_processes
from tests.sweeps import WHOLE, is_whole, settle_seed

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
    """All processes get the seed of the sweeps, and a whole run says so, before a test is read."""
    settle_seed()
    if config.option.whole:
        os.environ[WHOLE] = "1"
        settings.load_profile("whole")
        if config.option.markexpr == NOT_SLOW:
            config.option.markexpr = ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What makes another run take the same shares."""
    terminalreporter.write_line(f"sweeps: {'whole' if is_whole() else settle_seed()}")


# Before pytest-xdist reads its own options.
@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Share a whole run out among the cores; what is left over goes to whoever is done first."""
    if is_shared_out(config):
        config.option.numprocesses, config.option.dist = n_processes(), "worksteal"


# Before `-m` chooses.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only a whole run makes."""
    if not is_whole():
        left_out = left_out_of_slow(items)
        left_out |= {item for item in items if item.get_closest_marker("whole")}
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))


def pytest_collection_finish() -> None:
    """Thousands of tests are no garbage: to look through them again and again takes long."""
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing for a stage that does not belong to it."""
    stage = OF_STAGES.get(collection_path.name)
    is_left_out = stage is not None and config.option.markexpr != stage
    return True if is_left_out else None  # None: let others decide


class _Compiled(BytecodeCache):
    """Templates compiled once for all apps of this process."""

    def __init__(self) -> None:
        self._codes = dict[str, bytes]()

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._codes:
            bucket.load_bytecode(BytesIO(self._codes[bucket.key]))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._codes[bucket.key] = bucket.bytecode_to_string()


# Jinja's key is a template's name and file.
Flask.jinja_options = {"bytecode_cache": _Compiled()}


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
