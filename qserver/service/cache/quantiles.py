"""Numbers told by places in order, each computed once while nothing bears on its counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ref

from qserver.answering.answer import most_records
from qserver.answering.grounds import Grounds, Told
from qserver.answering.quantiles import (
    GroupsLaws,
    Laws,
    OrderKnown,
    OrderOf,
    QuantileAsked,
    QuantileKnown,
    Term,
    TermAsked,
    TermKnown,
    known_counts,
)
from qserver.inference.engine import InferenceEngine
from qserver.inference.quantiles.quantile import Quantile
from qserver.inference.quantiles.search import Table, next_table, raised
from qserver.service.cache.last_used import MOST_KNOWN, LastUsed
from qserver.service.datasets import OpenDataset, OpenDatasets

_Laws = Laws | GroupsLaws
_Key = tuple[str, TermAsked]


@dataclass
class _Read:
    """What history said of a number after so many changes of an engine."""

    engine: ref[InferenceEngine]
    since: int
    grounds: Grounds
    laws: _Laws | None

    @classmethod
    def of(cls, one: TermAsked, engine: InferenceEngine) -> _Read:
        """What history says now."""
        since, told = engine.n_changes, Told(engine)
        laws = one.laws(told)
        return cls(ref(engine), since, told.grounds, laws)

    def is_so_in(self, engine: InferenceEngine) -> bool:
        """Whether history says the same now."""
        now = engine.n_changes
        if engine is not self.engine():
            return False
        if now != self.since and not self.grounds.are_so_in(engine, since=self.since):
            return False
        self.since = now
        return True


class OrderView:
    """The numbers told by places in order, by the history as it was read. Thread-safe."""

    def __init__(self, opened: OpenDataset, cache: LastUsed[_Key, _Read]) -> None:
        self._opened, self._cache = opened, cache

    def of(self, one: OrderOf, *, missed: float | None = None) -> OrderKnown:
        """What history knows of a number.

        Args:
            missed: the probability that its interval may miss with; by its confidence by default.
        """
        own = (1.0 - one.confidence if missed is None else missed) / len(one.terms)
        return OrderKnown.of(one, [self._known(asked, own) for _, asked in one.terms])

    def _known(self, one: TermAsked, missed: float) -> TermKnown:
        with self._opened.lock:
            key, engine = (self._opened.meta.snapshot, one), self._opened.replica.engine
            found = self._cache.find(key)
            if found is None or not found.is_so_in(engine):
                self._cache.drop(key)
                found = self._cache.get(key, lambda: _Read.of(one, engine))
        return one.unknown if found.laws is None else found.laws.known(missed)

    def tables(self, one: OrderOf, terms: Sequence[Term]) -> list[Counts]:
        """The counts to measure next for each quantile and extreme that is still open."""
        known, found = self.of(one), list[Counts]()
        with self._opened.lock:
            replica = self._opened.replica
            most = most_records(replica)
            for part, term in zip(known.parts, terms, strict=True):
                asked, number = term.asked, term.number
                if not (isinstance(asked, QuantileAsked) and isinstance(number, Quantile)):
                    continue
                if not isinstance(part, QuantileKnown) or part.state(number) != "open":
                    continue
                table = next_table(number, part.thresholds, most)
                counts = known_counts(replica.engine, asked, table.stops)
                found.append(Counts(asked, number, raised(number, table, counts)))
        return found


class OrderNumbers:
    """The numbers told by places in order that one process keeps. Thread-safe.

    Args:
        datasets: the replicas that workloads are answered from.
    """

    def __init__(self, datasets: OpenDatasets) -> None:
        self._datasets, self._cache = datasets, LastUsed[_Key, _Read](MOST_KNOWN)

    def view(self, name: str) -> OrderView:
        """What history knows now."""
        return OrderView(self._datasets.refresh(name), self._cache)


@dataclass(frozen=True)
class Counts:
    """A table to measure for a quantile."""

    asked: QuantileAsked
    number: Quantile
    table: Table
