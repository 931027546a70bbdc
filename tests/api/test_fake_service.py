"""The service in memory has the methods of the real one, with the same parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qserver.service.free_answers import Insight
from qserver.service.history import ReleasedHistory
from qserver.service.ledger import LedgerViews
from qserver.service.models import ModelService
from qserver.service.service import Service
from tests.api.fake_models import FakeModels
from tests.api.fake_service import FakeService

PARTS = (
    (Service, FakeService),
    (Insight, FakeService),
    (ReleasedHistory, FakeService),
    (LedgerViews, FakeService),
    (ModelService, FakeModels),
)
# Only pages and the port, which have no service in memory, call these.
OF_OTHERS = {"known", "asked", "burn_down", "read"} | {
    "n_changes",
    "n_charges",
    "attached",
    "accounts",
}


def _methods() -> Iterator[tuple[str, Callable[..., Any], type]]:
    for real, fake in PARTS:
        for name, method in inspect.getmembers(real, inspect.isfunction):
            if not name.startswith("_") and name not in OF_OTHERS:
                yield name, method, fake


@pytest.mark.parametrize(("name", "method", "fake"), list(_methods()))
def test_the_fake_takes_what_the_service_takes(
    name: str, method: Callable[..., Any], fake: type
) -> None:
    real, ours = inspect.signature(method), inspect.signature(getattr(fake, name))
    assert list(ours.parameters.values()) == list(real.parameters.values())
