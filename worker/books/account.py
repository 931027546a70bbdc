"""One snapshot in the books: its chains of answers, and what is known of its people's losses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from worker.books.chains import Chains
from worker.books.functions import Row
from worker.books.grid import Grid
from worker.books.losses import Losses
from worker.books.periods import Ends, Spread, SpreadLosses
from worker.books.search import Known, Search


@dataclass(frozen=True)
class Ahead:
    """A snapshot once a judged plan is drawn, and those that were expected when it was judged.

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

    @property
    def share_ahead(self) -> int:
        """The share once the expected plans are charged."""
        return self.share if self.ahead is None else self.ahead.share

    @property
    def known_ahead(self) -> Known | None:
        """What was shown last, the expected plans included."""
        return self.known if self.ahead is None else self.ahead.known

    def losses(self, chains: Chains, *, more: int = 0, samples: Fraction = Fraction(0)) -> Losses:
        """What these chains cost.

        Args:
            more: what they may rise by in every cell yet, per record.
            samples: what samples cost besides those of the account.
        """
        flat = self.k * (self.samples + samples + more)
        return Losses.of(chains, k=self.k, flat=flat, pair_flat=2 * flat)

    def above(self, losses: Losses, level: int, known: Known | None) -> Fraction | None:
        """The greatest loss of a person if it is more than `level`; else None.

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
        """The greatest loss of a person; of bounds the one that the share is held against.

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
        """At least what a person loses more than `then`."""
        factor = 1 if self.relation == "add-remove" else 2
        rise = factor * (losses.flat - then.flat)
        rise += factor * max(0, losses.of_tables - then.of_tables)
        before = then.held
        for row, alpha in losses.held.items():
            rise += factor * max(0, alpha - before.get(row, 0)) * self._most_moved(row, 1)
        for row, weight in losses.weights.items():
            more = weight - then.weights.get(row, 0)
            if more > 0:
                rise += more * self._most_moved(row, factor)
        return rise

    def _most_moved(self, row: Row, factor: int) -> Fraction:
        """The most that the records of a person move a row."""
        one = row.size if factor == 1 else row.swing
        if self.spread is None or self.grid is None:
            return self.k * one
        moved = self.spread.most_moved(row, self.k, self.grid.sizes[self.spread.axis])
        # Values of both signs: those that go and those that come move the row.
        return min(self.k * one, moved * (1 if one == row.size else 2))
