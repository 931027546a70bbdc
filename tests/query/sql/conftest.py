"""The made-up people, once for all tests."""

from __future__ import annotations

import pytest

from tests.query.sql.people import People


@pytest.fixture(scope="session")
def people() -> People:
    """300 records."""
    return People.make(300, seed=5)
