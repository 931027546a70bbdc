"""Smooth numbers by the present history, each computed once while nothing bears on its sums."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from weakref import ref

from qserver.answering.answer import most_records
from qserver.answering.smooth_numbers import (
    KnownParts,
    SmoothKnown,
    SmoothOf,
    known_parts,
)
from qserver.inference.engine import InferenceEngine
from qserver.inference.smooth.part_law import PartLaw
from qserver.query.primitive import Primitive
from qserver.records.charge import NANO
from qserver.records.codec import plain, read
from qserver.records.dataset import DatasetMeta
from qserver.records.privacy.noise_law import NoiseLaw
from qserver.service.cache.last_used import LastUsed
from qserver.service.cache.shared_results import ResultKey, SharedResults
from qserver.service.cache.statements import MOST_KEPT
from qserver.service.datasets import OpenDataset, OpenDatasets
from qserver.storage.encoding.digests import reading
from qserver.storage.store import Store

_Parts = dict[float, KnownParts]
_Place = tuple[str, tuple[SmoothOf, ...]]
"""Snapshot, and which numbers are drawn together: their draws depend on all of them."""
_At = tuple[_Place, int]
"""The version that their sums were read at."""
_MOST_STATEMENTS = 8
"""Most statements whose draws are kept: a thousand sums have 4,000 each, 32 MB. Not measured."""


@dataclass(frozen=True)
class _Numbers:
    """The numbers of a statement, and what they were found from, as the store keeps them.

    Args:
        numbers: in the statement's order.
        ids: the measurements that their sums were found from.
        keys: of the sums' rows.
    """

    numbers: tuple[SmoothKnown, ...]
    ids: tuple[int, ...]
    keys: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text that `of_text` reads."""
        return json.dumps(plain(self))

    @classmethod
    @reading("numbers of a statement")
    def of_text(cls, text: str) -> _Numbers:
        """The numbers of a text."""
        return read(cls, json.loads(text))


@dataclass
class _Read:
    """What history said of the sums of a statement at a version, after so many changes.

    Args:
        shared: the numbers that other processes may find, by how many are chosen among.
        shared_at: the version that they find them at.
    """

    engine: ref[InferenceEngine]
    since: int
    version: int
    ids: tuple[int, ...]
    keys: tuple[str, ...]
    shared_at: int
    shared: dict[int, str] = field(default_factory=dict)

    def is_so_in(self, engine: InferenceEngine) -> bool:
        """Whether history says the same now."""
        return engine is self.engine() and engine.is_unchanged(self.since, self.ids, self.keys)


class SmoothView:
    """The smooth numbers of one statement by one version of the history.

    Their draws are made at once, when they are first needed.

    Args:
        parts: what history says now, by confidence of the numbers.
        found: all numbers, by how many they are chosen among.
    """

    def __init__(
        self,
        ones: Sequence[SmoothOf],
        parts: Callable[[], _Parts],
        found: Callable[[SmoothView, int], tuple[SmoothKnown, ...]],
    ) -> None:
        self._places = {one: i for i, one in enumerate(ones)}
        self._parts, self._found = parts, found
        self._numbers = dict[int, tuple[SmoothKnown, ...]]()

    @cached_property
    def parts(self) -> _Parts:
        """The sums that history knows, by confidence of the numbers."""
        return self._parts()

    def law(self, one: SmoothOf) -> PartLaw | None:
        """The law of a number's sums; None unless history gives them all."""
        return self.parts[one.confidence].law(one)

    def known(self, one: SmoothOf, *, among: int = 1) -> SmoothKnown:
        """What history knows of a number.

        Args:
            among: its interval also holds if the number is chosen among so many.
        """
        # All numbers are part of the key that they are kept by.
        if among not in self._numbers:
            self._numbers[among] = self._found(self, among)
        return self._numbers[among][self._places[one]]

    def computed(self, one: SmoothOf, *, among: int) -> SmoothKnown:
        """The same, computed now."""
        law = self.law(one)
        if law is None:
            at_least = self.parts[one.confidence].size_at_least(one)
            return SmoothKnown.unknown(len(one.queries), at_least)
        missed = (1.0 - one.confidence) / among
        return SmoothKnown.of(one.number(float("inf"), 0.0), law, missed=missed)


class SmoothNumbers:
    """The smooth numbers of one process. Thread-safe: two threads find the same at once.

    Numbers drawn given disagreements take seconds where many bear on them. So the first process
    that draws them shares them with all.

    Args:
        datasets: the replicas that workloads are answered from.
    """

    def __init__(self, store: Store, datasets: OpenDatasets) -> None:
        self._datasets, self._shared = datasets, SharedResults(store)
        self._numbers = LastUsed[tuple[_At, int], tuple[SmoothKnown, ...]](2 * MOST_KEPT)
        self._parts = LastUsed[_At, _Parts](_MOST_STATEMENTS)
        self._read = LastUsed[_Place, _Read](MOST_KEPT)

    def view(self, name: str, ones: Sequence[SmoothOf]) -> SmoothView:
        """What history knows of some numbers now; their order decides the draws."""
        opened, ones = self._datasets.refresh(name), tuple(dict.fromkeys(ones))
        place = opened.meta.snapshot, ones
        with opened.lock:
            replica, before = opened.replica, self._read.find(place)
            now = version = replica.present.n_shown
            if before is not None and before.is_so_in(replica.engine):
                version = before.version
        if before is not None and before.version == version:
            self._share_again(opened.meta, before, ones, now)
        at = place, version

        def parts() -> _Parts:
            return self._parts.get(at, lambda: self._parts_of(opened, at, now))

        def numbers(view: SmoothView, among: int) -> tuple[SmoothKnown, ...]:
            return self._numbers.get((at, among), lambda: self._found(opened, view, at, among))

        return SmoothView(ones, parts, numbers)

    def _parts_of(self, opened: OpenDataset, at: _At, now: int) -> _Parts:
        """What history says of the sums, and the note of what that depends on.

        Where the history is past `now`, they are told by more than their version, and not noted.
        """
        (snapshot, ones), version = at
        with opened.lock:
            engine, before = opened.replica.engine, self._read.find(at[0])
            is_noted = before is not None and before.version == version
            since, is_late = engine.n_changes, opened.replica.present.n_shown != now
            found = {
                c: known_parts(engine, [one for one in ones if one.confidence == c], seed=snapshot)
                for c in sorted({one.confidence for one in ones})
            }
        if is_late or is_noted:
            return found
        # Any purchase may tell an unknown number.
        self._read.drop(at[0])
        if all(row.is_zero or row.key in found[c].known for c, row in _rows(ones)):
            known = [one for parts in found.values() for one in parts.known.values()]
            ids = tuple(sorted({i for one in known for i in one.estimate.evidence}))
            keys = tuple(sorted({one.row.key for one in known}))
            self._read.keep(at[0], _Read(ref(engine), since, version, ids, keys, version))
        return found

    def _found(
        self, opened: OpenDataset, view: SmoothView, at: _At, among: int
    ) -> tuple[SmoothKnown, ...]:
        """The numbers that another process shares, or those computed now."""
        place, version = at
        key = _key(*place, version, among)
        if text := self._shared.find_far(opened.meta, key):
            found = _Numbers.of_text(text)
            self._note(opened, at, found).shared[among] = text
            return found.numbers
        numbers = tuple(view.computed(one, among=among) for one in place[1])
        before = self._read.find(place)
        is_of_these = before is not None and before.version == version
        if before and is_of_these and any(one.statement.disagreements for one in numbers):
            text = before.shared[among] = _Numbers(numbers, before.ids, before.keys).text
            self._shared.keep_far(opened.meta, key, text)
        return numbers

    def _note(self, opened: OpenDataset, at: _At, found: _Numbers) -> _Read:
        """The note of what shared numbers depend on, kept if the history is still at their
        version."""
        place, version = at
        with opened.lock:
            replica, before = opened.replica, self._read.find(place)
            if before is not None and before.version == version:
                return before
            since = replica.engine.n_changes
            noted = _Read(ref(replica.engine), since, version, found.ids, found.keys, version)
            if replica.present.n_shown == version:
                self._read.drop(place)
                self._read.keep(place, noted)
            return noted

    def _share_again(
        self, meta: DatasetMeta, before: _Read, ones: tuple[SmoothOf, ...], now: int
    ) -> None:
        """Share numbers at the present version, too, as nothing since bears on them."""
        if before.shared_at != now:
            before.shared_at = now
            for among, text in list(before.shared.items()):
                self._shared.keep_far(meta, _key(meta.snapshot, ones, now, among), text)

    def law(self, name: str) -> NoiseLaw:
        """The law of the dataset's noise."""
        return self._datasets.meta(name).law

    def price_nano(self, name: str, loss: float) -> int:
        """The most that a loss of a record costs from where the population stands.

        A person loses it by all their records. One that is replaced is lost, and another is won.
        """
        opened = self._datasets.refresh(name)
        with opened.lock:
            neighbours, law = opened.replica.ledger.neighbours, opened.meta.law
            lost_nano = opened.replica.present.standing.lost_nano
        n = neighbours.records_per_person * (1 + (neighbours.relation == "replace-one"))
        rise_nano = math.ceil(loss * law.together(n) * NANO)
        return opened.meta.shown.rise_nano(lost_nano, lost_nano + rise_nano)

    def most_records(self, name: str) -> float:
        """The public bound on the number of records."""
        opened = self._datasets.refresh(name)
        with opened.lock:
            return most_records(opened.replica)


def _rows(ones: Sequence[SmoothOf]) -> list[tuple[float, Primitive]]:
    """The sums of these numbers, each with its number's confidence."""
    return [(one.confidence, row) for one in ones for row in one.rows]


def _key(snapshot: str, ones: Sequence[SmoothOf], version: int, among: int) -> ResultKey:
    """The key of numbers at a version. A function of sums is told by its class and fields."""
    parts: list[object] = [snapshot, among]
    for one in ones:
        rows = [[row.key, str(row.multiplier)] for row in one.rows]
        parts.append([rows, repr(one.function), one.confidence, one.law.name])
    return ResultKey("numbers", (version,), hashlib.sha256(json.dumps(parts).encode()).hexdigest())
