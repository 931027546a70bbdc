"""The servers of the engine tests: one of each for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[object]:
    from tests.worker.sources.engines import postgres_server

    with postgres_server() as server:
        yield server


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    """The reader's password, where its address refers to."""
    from tests.worker.sources.engines import PASSWORD

    monkeypatch.setenv("PG_SECRET", PASSWORD)
    return PASSWORD


@pytest.fixture(scope="session")
def bucket() -> Iterator[object]:
    from tests.worker.sources.bucket import s3_server

    with s3_server() as server:
        yield server
