"""The simulator: one history on two very different private files, each draw a number of a seed.

Each released number depends on a seed and on its place in the order alone, as if the noise had made
up for the difference of the files. Then nothing that anybody sees may differ: neither what is
released nor what is priced, refused, planned, kept or shown. What differs was told by the data.

What is random or a time by itself is made the same instead of being left out: identifiers, keys
and tokens come from the seed, and the clock stands still. Only the ids of streams in the store,
which are times of its own, are numbered anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

from qserver.answering import checkpoint
from qserver.answering.checkpoint import CheckpointFolder
from qserver.service.ledger import Allowances, LedgerViews
from qserver.storage.saved_questions import SavedQuestions
from qserver.storage.server.connection import StoreClient, connect
from tests.deployment import Deployment, Relation
from tests.growing import Growing, week
from tests.privacy.histories import DOMAIN, WEEKS, History, Seen, work_off
from tests.worker.noise.one_by_one import each_new, each_refined
from worker.spending import measure as measuring
from worker.spending.spend import Spender

CHECKPOINT = "the worker's checkpoint"
NOW = 1_700_000_000.0
Rows = Sequence[tuple[int | str, ...]]
SMALL: dict[str, Rows] = {
    "one": [(1, "Female")],
    "all alike": [(1, "Male")] * 700,
    "all dropped": [(1, "")] * 40,
}
SMALL_WEEK = [("Female", "ann")]


def large(rng: random.Random) -> Rows:
    """Thousands of records, with missing values and values that the domain does not have."""
    ages, sexes = [0, 1, 1, 1, 77, -5], ["Female", "Male", "Male", "", "Unknown"]
    return [(rng.choice(ages), rng.choice(sexes)) for _ in range(rng.randint(1000, 3000))]


def large_week(rng: random.Random) -> Rows:
    """Hundreds of records of people with one to many each."""
    return [
        (rng.choice(["Female", "Male", "Male", ""]), f"p{rng.randint(0, 99)}")
        for _ in range(rng.randint(200, 400))
    ]


@dataclass(frozen=True)
class Play:
    """All that is visible of one history.

    Args:
        seen: the replies, in order.
        kept: what the store and the checkpoints hold, by name.
    """

    seen: tuple[Seen, ...]
    kept: dict[str, object]


@dataclass
class Stage:
    """Where histories of one seed are played, one after the other, each in an emptied store.

    Args:
        kinds: of the steps; see `histories.STEPS`.
        has_faults: whether a measurement may fail.
        delta: of a population under zcdp; None for pure privacy.
    """

    folder: Path
    store_url: str
    seed: str
    kinds: Sequence[str]
    n_steps: int
    relation: Relation = "add-remove"
    has_faults: bool = False
    delta: Fraction | None = None

    def still(self, rows: Rows) -> Play:
        """On a file."""

        def make(folder: Path) -> Deployment:
            return Deployment.make(
                folder,
                self.store_url,
                rows=rows,
                domain=DOMAIN,
                limit="2",
                relation=self.relation,
                delta=self.delta,
            )

        return self._played(make)

    def growing(self, weeks: Sequence[Rows]) -> Play:
        """On files that arrive by weeks, each between two steps."""
        dated = [[(week(i), *map(str, row)) for row in rows] for i, rows in enumerate(weeks)]

        def make(folder: Path) -> Deployment:
            return Growing.begin(
                folder,
                self.store_url,
                rows=dated[0],
                n_first=1,
                domain=WEEKS,
                limit="2",
                k=2,
                relation=self.relation,
                delta=self.delta,
            )

        def grow(town: Deployment, i: int) -> None:
            if i < len(dated):
                assert isinstance(town, Growing)
                town.append(i, dated[i])

        return self._played(make, grow)

    def _played(
        self,
        make: Callable[[Path], Deployment],
        grow: Callable[[Deployment, int], object] = lambda _town, _i: None,
    ) -> Play:
        client = connect(self.store_url, role="test")
        client.flushall()
        folder = self.folder / str(len(list(self.folder.iterdir())))
        folder.mkdir()
        with standing_still(self.seed), draws_of(self.seed):
            town = make(folder)
            spender = town.spender()
            history = History(
                self.seed,
                {town.meta.name: town.meta.domain},
                town.web(),
                lambda: work_off(town, spender),
                lambda i: grow(town, i),
            )
            for _ in history.play(self.kinds, self.n_steps):
                assert self.has_faults or history.faults == []
            found = kept(client) | {CHECKPOINT: checkpoint_of(town, spender)}
        client.close()
        return Play(tuple(history.seen), found)


def first_difference(one: Play, other: Play) -> str:
    """Where two plays differ first; empty where they are the same to the last character."""
    for a, b in zip(one.seen, other.seen, strict=False):
        if a != b:
            return f"{a}\n{b}"
    if len(one.seen) != len(other.seen):
        return f"{len(one.seen)} replies and {len(other.seen)}"
    names = sorted(one.kept.keys() | other.kept.keys())
    for name in names:
        if one.kept.get(name) != other.kept.get(name):
            return f"{name}: {one.kept.get(name)}\n{other.kept.get(name)}"
    return ""


@contextmanager
def draws_of(seed: str) -> Iterator[None]:
    """Let each released index be a number of the seed and of its place in the order.

    The truth is counted as ever and handed over; nothing is made of it. A refined answer is near
    the released one.
    """
    rng = random.Random(f"draws {seed}")

    def release(_truth: Fraction | int, *, step: Fraction, **_noise: object) -> int:
        return int(rng.randint(-20, 300) / step) + rng.randint(0, 3)

    def release_refined(
        _truth: Fraction | int, *, released_index: int, step: Fraction, **_noise: object
    ) -> int:
        return released_index + int(rng.randint(-5, 5) / step)

    with mock.patch.multiple(
        measuring,
        release=each_new(release),
        release_gaussian=each_new(release),
        release_refined=each_refined(release_refined),
    ):
        yield


@contextmanager
def standing_still(seed: str) -> Iterator[None]:
    """Identifiers, keys and tokens from the seed, and a clock that stands still."""
    rng = random.Random(f"names {seed}")
    with ExitStack() as stack:
        for name, of_bytes in _TOKENS.items():
            made = _made(rng, of_bytes)
            stack.enter_context(mock.patch(f"secrets.{name}", made))
        stack.enter_context(mock.patch("time.time", _now))
        for part in _WITH_CLOCKS:
            clocks = {name: _now for name in part.__kwdefaults__ if name in _CLOCKS}
            stack.enter_context(mock.patch.dict(part.__kwdefaults__, clocks))
        yield


_CLOCKS = ("wall_clock", "planning_clock")
_WITH_CLOCKS: tuple[Any, ...] = (
    Spender.__init__,
    LedgerViews.__init__,
    Allowances.__init__,
    SavedQuestions.__init__,
)
_TOKENS: dict[str, Callable[[bytes], Any]] = {
    "token_hex": bytes.hex,
    "token_urlsafe": bytes.hex,
    "token_bytes": bytes,
}


def _now() -> float:
    return NOW


def _made(rng: random.Random, of_bytes: Callable[[bytes], Any]) -> Callable[[int], Any]:
    def make(n: int = 32) -> object:
        return of_bytes(rng.randbytes(n))

    return make


def kept(client: StoreClient) -> dict[str, object]:
    """All that the store holds, by key."""
    found: dict[str, object] = {}
    for key in sorted(client.scan_iter(count=1000)):
        kind = client.type(key)
        found[str(key)] = _READ[kind](client, key)
    return found


def checkpoint_of(town: Deployment, spender: Spender) -> list[tuple[str, bytes]]:
    """What the worker would write down of its state: name and bytes."""
    folder = CheckpointFolder(town.settings.state_dir / "compared")
    for replica in spender._replicas.values():
        replica.engine.catch_up()
        checkpoint.kept(replica.saved, folder, replica.meta, town.settings)
    return [(path.name, path.read_bytes()) for path in folder.path.glob("*")]


_READ: dict[str, Callable[[StoreClient, str], object]] = {
    "hash": lambda client, key: sorted(client.hgetall(key).items()),
    "string": lambda client, key: client.get(key),
    "set": lambda client, key: sorted(client.smembers(key)),
    "zset": lambda client, key: client.zrange(key, 0, -1, withscores=True),
    "list": lambda client, key: client.lrange(key, 0, -1),
    # An entry's id is a time of the store; that it is there, and in which place, is not.
    "stream": lambda client, key: [fields for _id, fields in client.xrange(key)],
}
