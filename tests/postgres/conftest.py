"""A small deployment whose questions are measured as soon as they are asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployment import Deployment
from tests.postgres.client import RawClient, connected


@pytest.fixture
def town(tmp_path: Path, store_url: str) -> Deployment:
    return Deployment.make(tmp_path, store_url, limit="1000")


@pytest.fixture
def worker(town: Deployment) -> Iterator[None]:
    """A thread that works off what is asked."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.02):
            town.work_off()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.fixture
def client(town: Deployment) -> Iterator[RawClient]:
    """A connection that was let in."""
    with connected(town.service()) as found:
        found.start()
        yield found
