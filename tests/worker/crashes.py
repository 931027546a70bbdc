"""Kill a spend just before or just after one of its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from qserver.storage.keys import Keys
from qserver.storage.server.connection import StoreClient
from tests.deployment import Deployment
from worker.spending.spend import Spender


class Crash(BaseException):
    """Stands for SIGKILL: nothing after it runs, no handler catches it."""


def crashing(spender: Spender, method: str, *, after: bool) -> None:
    """Make `spender` die just before or just after one of its steps."""
    target: Any = spender
    for name in method.split(".")[:-1]:
        target = getattr(target, name)
    name = method.rsplit(".", 1)[-1]
    original: Callable[..., Any] = getattr(target, name)

    def step(*args: Any, **kwargs: Any) -> Any:
        if after:
            original(*args, **kwargs)
        raise Crash

    setattr(target, name, step)


def die_at(town: Deployment, redis_client: StoreClient, step: str, *, after: bool) -> None:
    """Work off what waits with a spender that dies, as seen once its lease has run out."""
    dying = town.spender()
    crashing(dying, step, after=after)
    with pytest.raises(Crash):
        town.work_off(dying)
    redis_client.delete(Keys("town").lease)


STEPS = [
    ("_writer.reserve", 0),
    ("_writer.await_durable", 1),
    ("_spends.draw", 1),
    ("_spends._keep_slot", 1),
    ("_spends.release", 1),
    ("_writer.publish", 1),
    ("_writer.acknowledge", 1),
]
