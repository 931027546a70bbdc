"""One Spark for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from tests.worker.private.spark.server import SparkServer

    server = SparkServer(tmp_path_factory.mktemp("spark"))
    try:
        yield server
    finally:
        server.kill()
