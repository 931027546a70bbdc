"""A seed of each run's own."""

from __future__ import annotations

import os
import secrets

import pytest

SEED = "QSERVER_SEED"


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """Another one in each run and test; a failure prints what repeats it.

    It is drawn here, so that the tests of all processes have the same names.
    """
    found = os.environ.get(SEED) or secrets.token_hex(4)
    print(f"{SEED}={found} repeats this")
    return f"{found} {request.node.name}"
