"""The loss of a person whose records are spread over periods, from what one record pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qserver.ledger.classes import Indices
from qserver.ledger.composition import Dues, Flat
from qserver.ledger.loss import UNITS_PER_NANO
from qserver.ledger.maximum import Maximum, RowPayment
from qserver.ledger.neighbours import Neighbours
from qserver.ledger.periods.by_period import ByPeriod, Pays, Units


@dataclass(frozen=True)
class PeriodSums:
    """The sums of a ledger, each of one record.

    Args:
        cells, pairs: the greatest payment of a cell, and of a pair, by rows less refunds.
    """

    by: ByPeriod
    neighbours: Neighbours
    cells: Maximum
    pairs: Maximum

    def bound_nano(
        self, flat: Flat, cells: Sequence[RowPayment] = (), rows: Sequence[RowPayment] = ()
    ) -> int:
        """A bound of the greatest loss with these payments added. Changes nothing.

        Args:
            flat: the part that is equal for every cell, after them.
        """
        pairs: Units | int = 0
        if self._has_pairs:
            pairs = self._of_pairs(flat, rows)
        pays = Pays(
            self._tops(self.cells, cells),
            pairs,
            flat.tables_nano * UNITS_PER_NANO,
            flat.totals_nano * UNITS_PER_NANO,
        )
        return _nano(pays.greatest(self.by, self.neighbours)) + flat.opaque_nano

    def _of_pairs(self, flat: Flat, rows: Sequence[RowPayment]) -> Units | int:
        """What pairs pay for rows and for tables of some periods: by period, or the most of all."""
        if not self.by.same_period:
            return self.pairs.top_with(rows) + 2 * flat.most_partly_nano * UNITS_PER_NANO
        tops = self._tops(self.pairs, rows)
        if not flat.partly:
            return tops
        return np.asarray(tops + 2 * UNITS_PER_NANO * np.array(flat.partly, dtype=np.int64))

    def added_nano(self, flat: Flat, due: Dues) -> int:
        """As `bound_nano`, with all payments added to a copy of the sums."""
        cells, pairs = self.cells.copy(), self.pairs.copy()
        cells.add(due.cells)
        if self._has_pairs:
            pairs.add(due.rows)
        return PeriodSums(self.by, self.neighbours, cells, pairs).bound_nano(flat)

    def certain_nano(self, flat: Flat) -> int | None:
        """A loss that somebody may have, up to rounding; None where sums are not written down.

        Of pairs only rows count.
        """
        certain, k = [], self.neighbours.records_per_person
        if self._has_pairs and self.pairs.is_dense:
            # Of pairs between any periods, as many as one period allows may be alike.
            units = self.by.most * self.pairs.top
            if self.by.same_period:
                units = self.by.greatest(self._tops(self.pairs, ()), k)
            certain.append(_nano(units) + flat.opaque_nano)
        if self.cells.is_dense and (self.neighbours.null_cell or not self._has_pairs):
            certain.append(self._spread_nano(self._tops(self.cells, ()), k, flat))
        return max(certain, default=None)

    def loss_nano(self, where: Mapping[int, Indices], flat: Flat) -> int:
        """At least the greatest loss of a person with records in some cells only."""
        by = self.by
        n = len(where.get(by.axis, range(by.n_periods)))
        cells = self.cells.by_value(by.axis, n_values=n, where=where)
        return self._spread_nano(cells, min(self.neighbours.records_per_person, n * by.most), flat)

    def by_value_nano(self, axis: int, sizes: Sequence[int], flat: Flat) -> list[int]:
        """For each value of an attribute, the greatest loss of a person with that value only."""
        by = self.by
        if axis == by.axis:
            tops = self._tops(self.cells, ())
            return [self._spread_nano(tops[t : t + 1], by.most, flat) for t in range(len(tops))]
        columns = self.cells.by_two(by.axis, axis, sizes=sizes).T
        k = self.neighbours.records_per_person
        return [self._spread_nano(column, k, flat) for column in columns]

    @property
    def _has_pairs(self) -> bool:
        return self.neighbours.relation == "replace-one"

    def _tops(self, sums: Maximum, payments: Sequence[RowPayment]) -> Units:
        return sums.by_value_with(self.by.axis, payments, n_values=self.by.n_periods)

    def _spread_nano(self, cells: Units, n_records: int, flat: Flat) -> int:
        """The loss of `n_records` records of cells with these sums by period."""
        more = n_records * (flat.tables_nano + flat.totals_nano) + flat.opaque_nano
        return _nano(self.by.greatest(cells, n_records)) + more


def _nano(units: int) -> int:
    """Nano-epsilon, rounded up."""
    return -(-units // UNITS_PER_NANO)
