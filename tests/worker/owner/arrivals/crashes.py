"""A process that dies at any step of what an owner does to data that arrive over time."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from tests.growing import Growing
from tests.worker.crashes import Crash
from worker.owner.checks.audit import examine

DELTAS = [
    pytest.param(None, id="pure"),
    pytest.param(Fraction(1, 10**9), marks=pytest.mark.slow, id="zcdp"),
]
"""Of the kinds of privacy that a population may have."""


class Step(NamedTuple):
    """What dies.

    Args:
        owner, method: a method of a class, or a function of a module.
        after: whether it dies after that is done, else before.
        place: at which call, from 0.
        decided: whether what it was part of is decided by then.
    """

    owner: Any
    method: str
    after: bool
    place: int
    decided: bool


def die_at(
    step: Step,
    act: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
    redis_client: StoreClient,
) -> None:
    """Let the process that acts die at a step, and time end its lease."""
    dying(monkeypatch, step.owner, step.method, after=step.after, place=step.place)
    with pytest.raises(Crash):
        act()
    monkeypatch.undo()
    # What time does to the lease of a process that died.
    redis_client.delete(Keys("town").lease)


def dying(
    monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, *, after: bool, place: int = 0
) -> None:
    """Make the call of this number of a method, or a function, end the process."""
    original: Callable[..., Any] = getattr(owner, method)
    calls = list[int]()

    def step(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) <= place:
            return original(*args, **kwargs)
        if after:
            original(*args, **kwargs)
        raise Crash

    monkeypatch.setattr(owner, method, step)


def folder_of(town: Growing) -> Path:
    return town.registry.folder / "parts" / town.meta.snapshot


def faults(town: Growing) -> list[str]:
    """What the doctor finds, but for settings that tests have for speed."""
    found = examine(town.registry, town.settings)
    return [f.text for f in found if not f.ok and not f.check.startswith(("BLAS", "slot"))]
