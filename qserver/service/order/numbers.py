"""Quantiles by the present history, each computed once for one version of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qserver.answering.order import (
    UNKNOWN,
    Laws,
    OrderKnown,
    OrderOf,
    QuantileAsked,
    known_counts,
    known_laws,
)
from qserver.answering.reading import most_records
from qserver.inference.order.quantile import Quantile
from qserver.inference.order.search import Table, next_table, raised
from qserver.service.cells.computed import Computed
from qserver.service.datasets import OpenDatasets

_At = tuple[str, int]


@dataclass(frozen=True)
class OrderNumbers:
    """The quantiles of one process. Thread-safe.

    Args:
        datasets: the replicas that workloads are answered from.
    """

    datasets: OpenDatasets
    laws: Computed[tuple[_At, QuantileAsked], Laws | None]

    def of(self, name: str, one: OrderOf, *, missed: float | None = None) -> OrderKnown:
        """What is known of a number now.

        Args:
            missed: the probability that its interval may miss with; by its confidence by default.
        """
        own = (1.0 - one.confidence if missed is None else missed) / len(one.terms)
        laws = [self._laws(name, asked) for _, asked in one.terms]
        return OrderKnown.of(one, [UNKNOWN if of is None else of.known(own) for of in laws])

    def _laws(self, name: str, one: QuantileAsked) -> Laws | None:
        opened = self.datasets.refresh(name)
        with opened.lock:
            at = opened.meta.snapshot, opened.replica.present.n_shown
            return self.laws.of((at, one), lambda: known_laws(opened.replica.engine, one))

    def tables(self, name: str, one: OrderOf, numbers: Sequence[Quantile]) -> list[Counts]:
        """The counts to measure next, for each quantile that is not told yet."""
        known, opened, found = self.of(name, one), self.datasets.refresh(name), list[Counts]()
        with opened.lock:
            most = most_records(opened.replica)
            for (_, asked), part, number in zip(one.terms, known.parts, numbers, strict=True):
                if part.state(number) != "open":
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
