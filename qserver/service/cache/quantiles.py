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
from qserver.service.datasets import OpenDatasets

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


class OrderNumbers:
    """The numbers told by places in order that one process keeps. Thread-safe.

    Args:
        datasets: the replicas that workloads are answered from.
    """

    def __init__(self, datasets: OpenDatasets) -> None:
        self._datasets = datasets
        self._read = LastUsed[_Key, _Read](MOST_KNOWN)

    def of(self, name: str, one: OrderOf, *, missed: float | None = None) -> OrderKnown:
        """What history knows of a number now.

        Args:
            missed: the probability that its interval may miss with; by its confidence by default.
        """
        own = (1.0 - one.confidence if missed is None else missed) / len(one.terms)
        return OrderKnown.of(one, [self._known(name, asked, own) for _, asked in one.terms])

    def _known(self, name: str, one: TermAsked, missed: float) -> TermKnown:
        opened = self._datasets.refresh(name)
        with opened.lock:
            key, engine = (opened.meta.snapshot, one), opened.replica.engine
            found = self._read.find(key)
            if found is None or not found.is_so_in(engine):
                self._read.drop(key)
                found = self._read.get(key, lambda: _Read.of(one, engine))
        return one.unknown if found.laws is None else found.laws.known(missed)

    def tables(self, name: str, one: OrderOf, terms: Sequence[Term]) -> list[Counts]:
        """The counts to measure next for each quantile and extreme that is still open."""
        known, opened, found = self.of(name, one), self._datasets.refresh(name), list[Counts]()
        with opened.lock:
            most = most_records(opened.replica)
            for part, term in zip(known.parts, terms, strict=True):
                asked, number = term.asked, term.number
                if not (isinstance(asked, QuantileAsked) and isinstance(number, Quantile)):
                    continue
                if not isinstance(part, QuantileKnown) or part.state(number) != "open":
                    continue
                table = next_table(number, part.thresholds, most)
                counts = known_counts(opened.replica.engine, asked, table.stops)
                found.append(Counts(asked, number, raised(number, table, counts)))
        return found


@dataclass(frozen=True)
class Counts:
    """A table to measure for a quantile."""

    asked: QuantileAsked
    number: Quantile
    table: Table
