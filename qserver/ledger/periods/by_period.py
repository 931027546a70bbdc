"""What a person loses whose records are spread over periods.

A unit of privacy may bound the records of one person in a period, by m, below those in all, k.
Then no person loses k times the greatest loss of a record, but at most the greatest sum of the
losses of k records, no more than m of them in one period: m times the floor(k/m) greatest of the
periods' greatest losses, and the rest of k times the next one.

Under replace-one a record may take the place of one of any period, or of its own period alone.

* Of its own: the greatest pair of cells within a period stands for the greatest loss of a cell.
* Of any: k times the greatest pair of all cells bounds the loss, and so do the sums of all records
  that go and of all that come. The lesser of the two counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qserver.errors import DomainError
from qserver.ledger.limits import LIMITS
from qserver.ledger.loss_tables import LossTable, SumTable

if TYPE_CHECKING:
    from qserver.ledger.neighbours import Neighbours

Units = NDArray[np.int64]
"""One amount per value of the period attribute."""


@dataclass(frozen=True)
class ByPeriod:
    """How the records of one person may be spread over the periods.

    Args:
        axis: position of the period attribute.
        n_periods: number of its values.
        most: m, most records in one period, >= 1.
        same_period: under replace-one, whether a record is replaced by one of its own period only.

    Raises:
        DomainError: a value is out of range.
    """

    axis: int
    n_periods: int
    most: int
    same_period: bool = False

    def __post_init__(self) -> None:
        if self.axis < 0 or self.n_periods < 1:
            raise DomainError("by_period", "name an attribute with one value or more")
        if self.most < 1:
            raise DomainError("records_per_period", "be a whole number >= 1", self.most)

    def greatest(self, amounts: NDArray[np.generic], n_records: int) -> int:
        """The greatest sum of `n_records` amounts, each taken at most m times.

        Args:
            amounts: one per period, never negative; periods left out have none.
        """
        n_whole, rest = divmod(n_records, self.most)
        ordered = np.sort(amounts)[::-1][: n_whole + 1].tolist()
        following = ordered[n_whole] if len(ordered) > n_whole else 0
        return int(self.most * sum(ordered[:n_whole]) + rest * following)


@dataclass(frozen=True)
class Pays:
    """What one record pays, in units.

    Args:
        cells: per period the greatest payment of a cell's rows, less refunds.
        pairs: the greatest payment of a pair of cells for rows: per period that of a pair within
            it, or one figure for all pairs; 0 under add-remove.
        tables: for tables that tell cells of a pair apart; a pair pays it twice.
        totals: for other tables, which only a record that is added or removed pays.
    """

    cells: Units
    pairs: Units | int
    tables: int
    totals: int

    def greatest(self, by: ByPeriod, neighbours: Neighbours) -> int:
        """The most that all records of a person pay, in units."""
        n_records, null_cell = neighbours.records_per_person, neighbours.null_cell
        cells = self.cells
        if 2 * (self.tables + self.totals) >= LIMITS.int64_safe:
            cells = cells.astype(object)
        alone = cells + self.tables + self.totals
        if neighbours.relation == "add-remove":
            return by.greatest(alone, n_records)
        if by.same_period:
            # Tables that only tell periods apart are among the totals, but may be refunded.
            both = np.minimum(self.pairs + 0 * cells + 2 * self.tables, 2 * alone)
            return by.greatest(np.maximum(both, alone) if null_cell else both, n_records)
        pairs = self.pairs + 2 * self.tables
        each = max(int(pairs), int(alone.max())) if null_cell else int(pairs)
        apart = 2 * by.greatest(cells + self.tables, n_records)
        return min(n_records * each, apart + (n_records * self.totals if null_cell else 0))


def greatest_along(losses: Iterable[LossTable], axis: int, *, n_values: int) -> Units:
    """At least the greatest sum of some losses, at each value of one axis."""
    found = np.zeros(n_values, dtype=np.int64)
    for loss in losses:
        found = found + along(SumTable(loss.layout, loss.values), axis, n_values=n_values)
    return found


def along(table: SumTable, axis: int, *, n_values: int) -> Units:
    """The greatest entry of a table at each value of one axis."""
    seen = table.maximum_over([a for a in table.layout.axes if a != axis])
    if not seen.layout.axes:
        return np.full(n_values, int(seen.values), dtype=np.int64)
    return np.asarray(seen.values[seen.layout.partitions[0].of_values])
