"""One snapshot in the books: its chains of answers, and what is known of its people's losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from worker.books.chains import Chains
from worker.books.grid import Grid
from worker.books.losses import Losses
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

    def rises_within(self, losses: Losses, level: int, known: Known | None) -> bool:
        """Whether no loss can rise by more than the level did; quick, and often enough."""
        if known is None:
            return False
        then, factor = known.losses, 1 if self.relation == "add-remove" else 2
        rise = factor * (losses.flat - then.flat)
        rise += factor * max(0, losses.of_tables - then.of_tables)
        for row, weight in losses.weights.items():
            more = weight - then.weights.get(row, 0)
            if more > 0:
                rise += self.k * more * (row.size if factor == 1 else row.swing)
        return rise <= level - known.level
