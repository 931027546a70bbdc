"""Sweeps: a run makes a share of each, and `pytest --whole` makes all of them.

A sweep tries many things of one kind: each byte of a store, each step at which a program can die,
many examples of a property, many draws. Most faults show in a share of them. Whoever changes what a
sweep is about, or publishes a version, makes the whole.

`@pytest.mark.whole` is for tests that have no share: they are left out but for `--whole`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

WHOLE = "QSERVER_WHOLE_SWEEPS"
"""Set in the environment of a run with `--whole`."""
_LEAST_EXAMPLES = 10
_LESS = 3
T = TypeVar("T")


def is_whole() -> bool:
    """Whether this run makes all of every sweep."""
    return WHOLE in os.environ


def share(found: Iterable[T], n: int) -> list[T]:
    """About `n` of these, evenly apart; all of them in a whole run."""
    everything = list(found)
    return everything if is_whole() else everything[:: max(1, len(everything) // n)]


def share_of_each(found: Iterable[T], n: int, *, kind: Callable[[T], str]) -> list[T]:
    """About `n` of each kind."""
    kinds = dict[str, list[T]]()
    for one in found:
        kinds.setdefault(kind(one), []).append(one)
    return [one for of_kind in kinds.values() for one in share(of_kind, n)]


def n_of(whole: int, *, share: int) -> int:
    """How many draws or trials to make: `whole`, or `share` where a share does."""
    return whole if is_whole() else share


def examples(whole: int) -> int:
    """How many examples of a property to try: a third of `whole`, and at least ten."""
    return n_of(whole, share=min(whole, max(_LEAST_EXAMPLES, whole // _LESS)))
