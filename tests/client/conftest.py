"""A deployment behind HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.serving import Served, serving
from tests.deployment import Deployment


@pytest.fixture
def served(tmp_path: Path, store_url: str) -> Iterator[Served]:
    """The people of the deployment; what must be measured becomes a job at once."""
    with serving(Deployment.make(tmp_path, store_url, limit="1000"), wait_s=0) as found:
        yield found
