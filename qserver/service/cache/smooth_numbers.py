"""Smooth numbers by the present history, each computed once while nothing bears on its sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import ref

from qserver.answering.answer import most_records
from qserver.answering.smooth_numbers import (
    KnownParts,
    KnownRow,
    SmoothKnown,
    SmoothOf,
    known_parts,
)
from qserver.inference.engine import InferenceEngine
from qserver.inference.smooth.part_law import PartLaw
from qserver.query.primitive import Primitive
from qserver.records.charge import NANO
from qserver.records.privacy.noise_law import NoiseLaw
from qserver.service.cache.last_used import MOST_KNOWN, LastUsed
from qserver.service.datasets import OpenDatasets

_At = tuple[str, int, int]
"""Snapshot, the version that their sums were read at, and which numbers are drawn together: their
draws depend on all of them."""
_Key = tuple[_At, SmoothOf, float]


_Cache = LastUsed[_Key, SmoothKnown]
_Parts = dict[float, KnownParts]
_MOST_STATEMENTS = 8
"""Most statements whose draws are kept: a thousand sums have 4,000 each, 32 MB. Not measured."""


@dataclass(frozen=True)
class _Read:
    """What history said of the sums of a statement at a version, after so many changes."""

    engine: ref[InferenceEngine]
    since: int
    version: int
    known: Sequence[KnownRow]

    def is_so_in(self, engine: InferenceEngine) -> bool:
        """Whether history says the same now."""
        ids = {i for one in self.known for i in one.estimate.evidence}
        keys = [one.row.key for one in self.known]
        return engine is self.engine() and engine.is_unchanged(self.since, ids, keys)


class SmoothView:
    """The smooth numbers of one statement by one version of the history.

    Their draws are made at once, when they are first needed.

    Args:
        read: what history says now, by confidence of the numbers.
    """

    def __init__(self, at: _At, cache: _Cache, read: Callable[[], _Parts]) -> None:
        self._at, self._cache, self._read = at, cache, read
        self._parts: _Parts | None = None

    def law(self, one: SmoothOf) -> PartLaw | None:
        """The law of a number's sums; None unless history gives them all."""
        return self._of(one).law(one)

    def _of(self, one: SmoothOf) -> KnownParts:
        if self._parts is None:
            self._parts = self._read()
        return self._parts[one.confidence]

    def known(self, one: SmoothOf, *, missed: float | None = None) -> SmoothKnown:
        """What history knows of a number.

        Args:
            missed: the probability that its interval may miss with; by its confidence by default.
        """
        allowed = 1.0 - one.confidence if missed is None else missed

        def computed() -> SmoothKnown:
            law = self.law(one)
            if law is None:
                return SmoothKnown.unknown(len(one.queries), self._of(one).size_at_least(one))
            return SmoothKnown.of(one.number(float("inf"), 0.0), law, missed=allowed)

        return self._cache.get((self._at, one, allowed), computed)


class SmoothNumbers:
    """The smooth numbers of one process. Thread-safe: two threads find the same at once.

    Args:
        datasets: the replicas that workloads are answered from.
    """

    def __init__(self, datasets: OpenDatasets) -> None:
        self._datasets = datasets
        self._cache: _Cache = LastUsed(MOST_KNOWN)
        self._parts: LastUsed[tuple[str, int, Sequence[SmoothOf]], _Parts] = LastUsed(
            _MOST_STATEMENTS
        )
        self._read = LastUsed[tuple[str, Sequence[SmoothOf]], _Read](_MOST_STATEMENTS)

    def view(self, name: str, ones: Sequence[SmoothOf]) -> SmoothView:
        """What history knows of some numbers now; their order decides the draws."""
        opened, ones = self._datasets.refresh(name), tuple(dict.fromkeys(ones))
        replica, snapshot = opened.replica, opened.meta.snapshot
        with opened.lock:
            before, version = self._read.find((snapshot, ones)), replica.present.n_shown
            if before is not None and before.is_so_in(replica.engine):
                version = before.version

        def read() -> _Parts:
            with opened.lock:
                since = replica.engine.n_changes
                found = {
                    c: known_parts(
                        replica.engine,
                        [one for one in ones if one.confidence == c],
                        seed=snapshot,
                    )
                    for c in sorted({one.confidence for one in ones})
                }
            known = [one for parts in found.values() for one in parts.known.values()]
            # Any purchase may tell an unknown number.
            self._read.drop((snapshot, ones))
            if all(row.is_zero or row.key in found[c].known for c, row in _rows(ones)):
                kept = _Read(ref(replica.engine), since, version, known)
                self._read.keep((snapshot, ones), kept)
            return found

        key = snapshot, version, ones
        at = snapshot, version, hash(ones)
        return SmoothView(at, self._cache, lambda: self._parts.get(key, read))

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
