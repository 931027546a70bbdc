"""Sweeps: a run makes a share of each, and `pytest --whole` makes all of them.

A sweep tries many things of one kind: each byte of a store, each step at which a program can die,
many examples of a property, many draws. Most faults show in a share of them. Which share it is
changes with the commit, and stands in the first lines of a run. Whoever changes what a sweep is
about, or publishes a version, makes the whole.

`@pytest.mark.whole` is for tests that have no share: they are left out but for `--whole`.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

WHOLE = "QSERVER_WHOLE_SWEEPS"
"""Set in the environment of a run with `--whole`."""
SEED = "QSERVER_SWEEP_SEED"
"""Which share of a sweep is made; the commit where it is not set."""
_LEAST_EXAMPLES = 10
_LESS = 3
T = TypeVar("T")


def is_whole() -> bool:
    """Whether this run makes all of every sweep."""
    return WHOLE in os.environ


def settle_seed() -> str:
    """The seed of this run, for all its processes."""
    if SEED not in os.environ:
        asked = ["git", "rev-parse", "--short=12", "HEAD"]
        root = Path(__file__).parent
        try:
            found = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=True)
            os.environ[SEED] = found.stdout.strip()
        except (OSError, subprocess.CalledProcessError):  # a copy without its history
            os.environ[SEED] = "0"
    return os.environ[SEED]


def every_nth(found: Sequence[T], n: int, *, of: str) -> Sequence[T]:
    """One in `n` of these, evenly apart; the seed says where they begin."""
    step = max(1, min(n, len(found)))
    return found[zlib.crc32(f"{settle_seed()} {of}".encode()) % step :: step]


def share(found: Iterable[T], n: int) -> list[T]:
    """About `n` of these, evenly apart; all of them in a whole run."""
    everything = list(found)
    if is_whole():
        return everything
    return list(every_nth(everything, max(1, len(everything) // n), of=f"{len(everything)}"))


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
