"""Chromium on real servers: the demo as its users start it, and one with accounts in our hands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from qserver.storage.server.embedded_store import EmbeddedServer
from tests.browser.chromium_page import Visit, Visitor
from tests.browser.town_server import TownServer, town_server
from tests.cli.local.running_program import running

APT = "apt-get install -y --no-install-recommends chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome")
ROOT = Path(__file__).parents[2]
# A busy machine is no fault of a page.
expect.set_options(timeout=20_000)


@pytest.fixture(autouse=True)
def budget() -> None:
    """None: pages are a stage of their own."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The machine's own Chromium; QSERVER_CHROMIUM names another."""
    path = os.environ.get("QSERVER_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert path, f"Chromium is missing. Install it: {APT}"
    # Containers rarely give the rights that Chromium's own sandbox needs, and little shared memory.
    options = ["--no-sandbox", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def screenshots() -> Path:
    """Where pictures of pages are kept; git ignores it."""
    folder = Path(os.environ.get("QSERVER_ARTEFACTS", ROOT / ".ci" / "artefacts")) / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def pictures(screenshots: Path) -> Path:
    """Where those of the gallery go."""
    folder = Path(os.environ.get("QSERVER_PICTURES", screenshots / "gallery"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def demo_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`qserver demo` with a budget of 0.3, as a process of its own."""
    state = tmp_path_factory.mktemp("demo") / "state"
    with running(state, "demo", "--port", "0", "--state", str(state), "--limit", "0.3") as program:
        yield program.url
        program.process.terminate()
        program.process.wait(timeout=60)


@pytest.fixture(scope="module")
def fresh_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A demo of which the module's own tests alone have asked."""
    state = tmp_path_factory.mktemp("fresh") / "state"
    with running(state, "demo", "--port", "0", "--state", str(state)) as program:
        yield program.url
        program.process.terminate()
        program.process.wait(timeout=60)


@pytest.fixture
def town(tmp_path: Path) -> Iterator[TownServer]:
    """A server with accounts whose worker works when the test says so."""
    with (
        EmbeddedServer.start(tmp_path / "store") as store,
        town_server(tmp_path, store.url) as town,
    ):
        yield town


@pytest.fixture
def visitor(
    chromium: Browser, screenshots: Path, request: pytest.FixtureRequest
) -> Iterator[Visitor]:
    """Opens pages; at the end none of them may have met an error."""
    found = Visitor(chromium, screenshots, request.node.name)
    yield found
    found.close()
    assert found.errors == []


@pytest.fixture
def visit(visitor: Visitor) -> Visit:
    """A page of desktop size in light colours."""
    return visitor.open()
