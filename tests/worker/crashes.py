"""Kill a spend just before or just after one of its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


STEPS = [
    ("_writer.reserve", 0),
    ("_writer.await_durable", 1),
    ("_measure", 1),
    ("_keep_slot", 1),
    ("_journal_release", 1),
    ("_writer.publish", 1),
    ("_writer.acknowledge", 1),
]
