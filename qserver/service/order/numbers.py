"""Numbers told by places in order by the present history, each computed once for its version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qserver.answering.answer import most_records
from qserver.answering.order import (
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
from qserver.inference.order.quantile import Quantile
from qserver.inference.order.search import Table, next_table, raised
from qserver.service.cells.computed import Computed
from qserver.service.datasets import OpenDatasets

_At = tuple[str, int]
_Laws = Laws | GroupsLaws


@dataclass(frozen=True)
class OrderNumbers:
    """Those of one process. Thread-safe.

    Args:
        datasets: the replicas that workloads are answered from.
    """

    datasets: OpenDatasets
    laws: Computed[tuple[_At, TermAsked], _Laws | None]

    def of(self, name: str, one: OrderOf, *, missed: float | None = None) -> OrderKnown:
        """What is known of a number now.

        Args:
            missed: the probability that its interval may miss with; by its confidence by default.
        """
        own = (1.0 - one.confidence if missed is None else missed) / len(one.terms)
        return OrderKnown.of(one, [self._known(name, asked, own) for _, asked in one.terms])

    def _known(self, name: str, one: TermAsked, missed: float) -> TermKnown:
        opened = self.datasets.refresh(name)
        with opened.lock:
            at = opened.meta.snapshot, opened.replica.present.n_shown
            laws = self.laws.of((at, one), lambda: one.laws(opened.replica.engine))
        return one.unknown if laws is None else laws.known(missed)

    def tables(self, name: str, one: OrderOf, terms: Sequence[Term]) -> list[Counts]:
        """The counts to measure next, for each quantile and extreme that is not told yet."""
        known, opened, found = self.of(name, one), self.datasets.refresh(name), list[Counts]()
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
