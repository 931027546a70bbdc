"""One snapshot in the books: its chains of answers, and the known losses of its people.

The loss of a person whose records cannot all be of one period.

Of k records at most m are of one period. So a person loses at most the greatest sum of k records'
losses, no more than m of them in one period. A record that is replaced stays in its period, or may
come from any. In the latter case two bounds hold: k times the greatest loss of a pair of cells, and
twice the greatest sum of cells, as all records that go and all that come move the rows apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from worker.books.cell_functions import Grid, Row, Table
from worker.books.chains import Chains
from worker.books.journal_lines import UnknownFactsError
from worker.books.losses import Known, Losses, Search


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
        """The spread in a line of an attach; None if all records may be of one period."""
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

    def n_moving(self, of: Row | Table, k: int, sizes: Sequence[int], relation: str) -> int:
        """The most of k records that can move a row, or one cell of a table.

        Under `replace-one` with any period those that go are of them, or those that come.
        """
        inside = np.ones(sizes[self.axis], dtype=np.int64)
        if isinstance(of, Table):
            runs = dict(of.axes).get(self.axis)
            parts = 0 * inside if runs is None else runs.dense()
            n_periods = int(np.bincount(parts[parts >= 0]).max())
        else:
            found = [dict(term.factors).get(self.axis) for term in of.terms]
            weighed = [inside if runs is None else runs.dense() for runs in found]
            n_periods = int(np.any(weighed, axis=0).sum())
        sides = 1 if relation == "add-remove" or self.keeps_period else 2
        return min(k, sides * self.most * n_periods)

    def greatest(self, amounts: Sequence[tuple[Fraction, int]], k: int) -> Fraction:
        """The greatest sum of k amounts, each with the number of periods that have it."""
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
        """The greatest loss or a loss above the level, if it exceeds the level; else None.

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
        """Bounds of the loss, equal unless a record may come from any period.

        Raises:
            UnknownFactsError: a search would take too long.
        """
        k, spread = self.losses.k, self.spread
        flat, pair_flat = self.losses.flat, self.losses.pair_flat
        one = replace(
            self.losses,
            k=1,
            weights={row: w * self._n_moving(row) for row, w in self.losses.weights.items()},
            tables=[(table, a * self._n_moving(table)) for table, a in self.losses.tables],
            flat=Fraction(0),
            pair_flat=Fraction(0),
        )
        cells = self._by_period(one, pairs=False)
        gone = self._ends(cells, flat)
        if self.relation == "add-remove":
            return gone
        if spread.keeps_period:
            pairs = self._by_period(one, pairs=True)
            if self.null_cell:
                both = zip(pairs, cells, strict=True)
                pairs = [(max(p, c), n) for (p, n), (c, _) in both]
            return self._ends(pairs, pair_flat)
        totals = sum(alpha for table, alpha in one.tables if not table.axes)
        sides = 2**one.power
        apart = sides * spread.greatest([(c - totals, n) for c, n in cells], k)
        pair = self._search(one, pairs=True).above() or Fraction(0)
        # Of pairs of any periods, as many as one period allows may be alike.
        least = (
            self._ends([(pair, 1)], pair_flat).least
            if one.power == 2
            else (spread.most * pair + pair_flat)
        )
        if self.null_cell:
            apart += k * totals
            pair, least = max([pair, *(c for c, _ in cells)]), max(least, gone.least)
        most = min(k * pair, apart) + pair_flat
        return Ends(min(least, most), most)

    def _n_moving(self, of: Row | Table) -> int:
        """How many records weigh together in a row or table: 1 where no squares count."""
        k, power = self.losses.k, self.losses.power
        if power == 1:
            return 1
        return self.spread.n_moving(of, k, self.grid.sizes, self.relation)

    def _ends(self, one: list[tuple[Fraction, int]], flat: Fraction) -> Ends:
        """Bounds of k records' losses, from one record's by period.

        Squares are bounded from below by m records that are alike; where nothing is of two periods,
        by as many whole periods as k has.
        """
        k, m = self.losses.k, self.spread.most
        found = self.spread.greatest(one, k) + flat
        if self.losses.power == 1:
            return Ends(found, found)
        every: list[Row | Table] = [*self.losses.weights, *(t for t, _ in self.losses.tables)]
        most = max(map(self._n_moving, every), default=m)
        whole = k - k % m if most <= m else m
        return Ends(self.spread.greatest(one, whole) * Fraction(m, max(most, m)) + flat, found)

    def _by_period(self, one: Losses, *, pairs: bool) -> list[tuple[Fraction, int]]:
        """The greatest loss of one record in each class of periods, and their number."""
        self._search(one, pairs=False)  # Splits the classes for all charged rows.
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


@dataclass(frozen=True)
class Ahead:
    """A snapshot after a judged plan, and the plans expected when it was judged.

    Args:
        chains: None if the books cannot tell them.
        known: what was shown of them, or of fewer.
    """

    share: int
    chains: Chains | None = None
    known: Known | None = None


@dataclass
class Account:
    """One snapshot.

    Args:
        null_cell: whether a record may be replaced by none; None if the journal does not say.
        spread: how a person's records may be spread over periods; None if all may be of one.
        share: the most that a plan in the journal said the snapshot has spent.
        samples: what secret samples cost a record, in nano-epsilon.
        paid: the paid questions of its plans, as they were written.
        unknown: why the books cannot tell its loss; '' if they can.
        fault: why they refuse it; '' if they do not.
        n_failed: searches in a row that took too long; each next one may take half the work.
        ahead: what it will be once the expected plans are drawn; None if none is expected.
        delta: at which its rho is shown as epsilon; '' under pure privacy.
    """

    dataset: str
    k: int
    relation: str
    null_cell: bool | None
    spread: Spread | None = None
    chains: Chains = field(default_factory=Chains)
    share: int = 0
    samples: Fraction = Fraction(0)
    paid: list[str] = field(default_factory=list)
    unknown: str = ""
    fault: str = ""
    grid: Grid | None = None
    known: Known | None = None
    n_failed: int = 0
    ahead: Ahead | None = None
    delta: str = ""

    @property
    def unit(self) -> str:
        """The unit of its losses."""
        return "rho" if self.chains.are_anew else "epsilon"

    @property
    def share_ahead(self) -> int:
        """The share after the expected plans."""
        return self.share if self.ahead is None else self.ahead.share

    @property
    def known_ahead(self) -> Known | None:
        """The losses that were last proven, expected plans included."""
        return self.known if self.ahead is None else self.ahead.known

    def losses(self, chains: Chains, *, more: int = 0, samples: Fraction = Fraction(0)) -> Losses:
        """The cost of these chains.

        Args:
            more: what they may rise by in every cell yet, per record.
            samples: what samples cost besides those of the account.
        """
        flat = (self.k**2 if chains.are_anew else self.k) * (self.samples + samples + more)
        return Losses.of(chains, k=self.k, flat=flat, pair_flat=2 * flat)

    def above(self, losses: Losses, level: int, known: Known | None) -> Fraction | None:
        """The greatest loss of a person if above `level`; else None.

        Raises:
            UnknownFactsError: the search would take too long.
        """
        if self.grid is None:
            return None
        if self.spread is not None:
            return self._ends(self.grid, losses, self.spread).above(level)
        kinds = [True] if self.relation == "replace-one" else []
        kinds += [False] if self.relation == "add-remove" or self.null_cell else []
        found, n_failed = [], self.n_failed
        self.n_failed += 1
        for pairs in kinds:
            search = Search(
                self.grid, losses, level=level, known=known, pairs=pairs, n_failed=n_failed
            )
            found.append(search.above())
        self.n_failed = 0
        return max((loss for loss in found if loss is not None), default=None)

    def greatest(self) -> Fraction:
        """The greatest loss of a person; of bounds, the one to compare the share with.

        Raises:
            UnknownFactsError: the search would take too long, or bounds do not tell.
        """
        losses = self.losses(self.chains)
        if self.spread is None or self.grid is None:
            return self.above(losses, -1, None) or Fraction(0)
        ends = self._ends(self.grid, losses, self.spread)
        return ends.above(self.share) or ends.most

    def _ends(self, grid: Grid, losses: Losses, spread: Spread) -> Ends:
        n_failed = self.n_failed
        self.n_failed += 1
        null_cell = bool(self.null_cell)
        search = SpreadLosses(grid, losses, spread, self.relation, null_cell, n_failed)
        found = search.ends()
        self.n_failed = 0
        # What each row alone may cost, added up, is a bound too.
        return replace(found, most=min(found.most, self._rise(losses, Losses(self.k, {}, []))))

    def rises_within(self, losses: Losses, level: int, known: Known | None) -> bool:
        """Whether no loss can rise by more than the level did; quick, and often enough."""
        if known is None:
            return False
        return self._rise(losses, known.losses) <= level - known.level

    def _rise(self, losses: Losses, then: Losses) -> Fraction:
        """At least a person's further loss since `then`."""
        factor = 1 if self.relation == "add-remove" else 2
        rise = factor * (losses.flat - then.flat)
        if losses.power == 2 and self.spread is not None and self.grid is not None:
            old = [alpha for _, alpha in then.tables] + [0] * len(losses.tables)
            for (table, alpha), known in zip(losses.tables, old, strict=False):
                n = self.spread.n_moving(table, self.k, self.grid.sizes, self.relation)
                inside = self.k if table.held is None else self._most_moved(table.held, 1)
                rise += factor * max(0, alpha - known) * n * inside
        else:
            rise += factor * max(0, losses.of_tables - then.of_tables)
            before = then.held
            for row, alpha in losses.held.items():
                moved = self._most_moved(row, 1) ** losses.power
                rise += factor * max(0, alpha - before.get(row, 0)) * moved
        for row, weight in losses.weights.items():
            more = weight - then.weights.get(row, 0)
            if more > 0:
                rise += more * self._most_moved(row, factor) ** losses.power
        return rise

    def _most_moved(self, row: Row, factor: int) -> Fraction:
        """The most that the records of a person move a row."""
        one = row.size if factor == 1 else row.swing
        if self.spread is None or self.grid is None:
            return self.k * one
        moved = self.spread.most_moved(row, self.k, self.grid.sizes[self.spread.axis])
        # Values of both signs: leaving and arriving records both move the row.
        return min(self.k * one, moved * (1 if one == row.size else 2))
