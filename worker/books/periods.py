"""The loss of a person whose records cannot all be of one period.

Of k records at most m are of one period. So a person loses at most the greatest sum of k records'
losses, no more than m of them in one period. A record that is replaced stays in its period, or may
come from any. In the latter case two bounds hold: k times the greatest loss of a pair of cells, and
twice the greatest sum of cells, as all records that go and all that come move the rows apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

from worker.books.functions import Row
from worker.books.grid import Grid
from worker.books.lines import UnknownFactsError
from worker.books.losses import Losses
from worker.books.search import Search


@dataclass(frozen=True)
class Spread:
    """How the records of a person may be spread over the values of one attribute.

    Args:
        axis: the attribute of the periods.
        most: m, most records in one period.
        keeps_period: whether a replaced record stays in its period.
    """

    axis: int
    most: int
    keeps_period: bool

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> Spread | None:
        """What a line of an attach says; None if all records may be of one period."""
        if "period_axis" not in details:
            return None
        most = int(details["records_per_period"])
        return cls(int(details["period_axis"]), most, bool(int(details["keeps_period"])))

    def most_moved(self, row: Row, k: int, n_periods: int) -> Fraction:
        """At least the sum of a row's sizes at k records."""
        sizes = [Fraction(0)] * n_periods
        for term in row.terms:
            factors = dict(term.factors)
            runs = factors.pop(self.axis, None)
            rest = abs(term.coefficient) * prod(max(map(abs, r.numbers)) for r in factors.values())
            for t in range(n_periods):
                sizes[t] += rest if runs is None else rest * abs(runs.at(t))
        return self.greatest([(size, 1) for size in sizes], k)

    def greatest(self, amounts: Sequence[tuple[Fraction, int]], k: int) -> Fraction:
        """The greatest sum of k amounts, each given with the number of periods that have it."""
        total, left = Fraction(0), k
        for amount, n_periods in sorted(amounts, reverse=True):
            taken = min(left, self.most * n_periods)
            total, left = total + taken * amount, left - taken
        return total


@dataclass(frozen=True)
class Ends:
    """Somebody may lose `least`, and nobody loses more than `most`."""

    least: Fraction
    most: Fraction

    def above(self, level: int) -> Fraction | None:
        """The greatest loss, or one above the level, if it is more than the level; else None.

        Raises:
            UnknownFactsError: that cannot be told.
        """
        if self.most <= level:
            return None
        if self.least > level:
            return self.least
        raise UnknownFactsError("what a person loses is known by bounds only")


@dataclass(frozen=True)
class SpreadLosses:
    """The greatest loss of a person, by a search for each period.

    Args:
        losses: for all k records; what is the same for all cells is for a person.
        n_failed: as for `Search`.
    """

    grid: Grid
    losses: Losses
    spread: Spread
    relation: str
    null_cell: bool
    n_failed: int

    def ends(self) -> Ends:
        """Bounds of it, which are the same unless a record may come from any period.

        Raises:
            UnknownFactsError: a search would take too long.
        """
        k, spread = self.losses.k, self.spread
        flat, pair_flat = self.losses.flat, self.losses.pair_flat
        one = replace(self.losses, k=1, flat=Fraction(0), pair_flat=Fraction(0))
        cells = self._by_period(one, pairs=False)
        gone = spread.greatest(cells, k) + flat
        if self.relation == "add-remove":
            return Ends(gone, gone)
        if spread.keeps_period:
            pairs = self._by_period(one, pairs=True)
            if self.null_cell:
                both = zip(pairs, cells, strict=True)
                pairs = [(max(p, c), n) for (p, n), (c, _) in both]
            found = spread.greatest(pairs, k) + pair_flat
            return Ends(found, found)
        totals = sum(alpha for table, alpha in one.tables if not table.axes)
        apart = 2 * spread.greatest([(c - totals, n) for c, n in cells], k)
        pair = self._search(one, pairs=True).above() or Fraction(0)
        least = spread.most * pair + pair_flat
        if self.null_cell:
            apart += k * totals
            pair, least = max([pair, *(c for c, _ in cells)]), max(least, gone)
        most = min(k * pair, apart) + pair_flat
        return Ends(min(least, most), most)

    def _by_period(self, one: Losses, *, pairs: bool) -> list[tuple[Fraction, int]]:
        """The greatest loss of one record in each class of periods, and how many it has."""
        self._search(one, pairs=False)  # Splits the classes for all that is charged.
        counts = self.grid.counts(self.spread.axis)
        found = []
        for i, n_periods in enumerate(counts):
            search = self._search(one, pairs=pairs, fixed=(self.spread.axis, i))
            found.append((search.above() or Fraction(0), n_periods))
        return found

    def _search(self, one: Losses, *, pairs: bool, fixed: tuple[int, int] | None = None) -> Search:
        return Search(
            self.grid,
            one,
            level=-1,
            known=None,
            pairs=pairs,
            n_failed=self.n_failed,
            fixed=fixed,
        )
