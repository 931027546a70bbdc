"""Neighbouring datasets: the most that one person changes, and so the most that a charge costs.

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
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from qserver.errors import DomainError
from qserver.ledger.constants import LIMITS
from qserver.ledger.loss import UNITS_PER_NANO, Shape, cell_shapes, pair_shapes_within
from qserver.ledger.loss_tables import LossTable, SumTable
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.query.primitive import primitive
from qserver.query.sealed_periods import periods_of
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge, Relation, TableCharge
from qserver.records.dataset import DatasetMeta
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

Units = NDArray[np.int64]
"""One amount per value of the period attribute."""


@dataclass(frozen=True)
class ByPeriod:
    """How one person's records may be spread over the periods.

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

    def most_in_one(self, of: LinearQuery | ProductPartition) -> int:
        """The periods that a row weighs, or the most that a cell of a table has."""
        if isinstance(of, LinearQuery):
            return sum(map(len, periods_of(of, self.axis)))
        parts = next((p.dense for p in of.axes if p.axis == self.axis), None)
        return self.n_periods if parts is None else int(np.bincount(parts[parts >= 0]).max())

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
        apart_factor = neighbours.law.together(2)
        cells = self.cells
        if apart_factor * (self.tables + self.totals) >= LIMITS.int64_safe:
            cells = cells.astype(object)
        alone = cells + self.tables + self.totals
        if neighbours.relation == "add-remove":
            return by.greatest(alone, n_records)
        if by.same_period:
            # Tables that only tell periods apart are among the totals, but may be refunded.
            both = np.minimum(self.pairs + 0 * cells + 2 * self.tables, apart_factor * alone)
            return by.greatest(np.maximum(both, alone) if null_cell else both, n_records)
        pairs = self.pairs + 2 * self.tables
        each = max(int(pairs), int(alone.max())) if null_cell else int(pairs)
        apart = apart_factor * by.greatest(cells + self.tables, n_records)
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


@dataclass(frozen=True)
class Neighbours:
    """The datasets that differ by one person.

    Args:
        relation: `add-remove` or `replace-one` record.
        records_per_person: k, most records that one person owns, >= 1.
        null_cell: under replace-one, whether a record may lie outside the domain.
        by_period: how the k records may be spread over periods; None if all may be alike.
        law: of the noise.

    Raises:
        DomainError: a value is out of range.
    """

    relation: Relation = "add-remove"
    records_per_person: int = 1
    null_cell: bool = True
    by_period: ByPeriod | None = None
    law: NoiseLaw = LAPLACE

    def __post_init__(self) -> None:
        if self.relation not in ("add-remove", "replace-one"):
            raise DomainError("relation", "be `add-remove` or `replace-one`", self.relation)
        k = self.records_per_person
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise DomainError("records_per_person", "be a whole number >= 1", k)

    @property
    def alike(self) -> frozenset[int]:
        """Attributes in which both cells of a pair always agree."""
        by = self.by_period
        return frozenset() if by is None or not by.same_period else frozenset({by.axis})

    @property
    def most_alike(self) -> int:
        """The most records of one person that may lie in one cell."""
        return self.records_per_person if self.by_period is None else self.by_period.most

    @property
    def together(self) -> int:
        """k records cost at most this many times what single ones cost."""
        return self.law.spread(self.records_per_person)

    def together_in(self, of: LinearQuery | ProductPartition) -> int:
        """The same for a row, or for a table with a row in each cell.

        Only records of its periods move it: under replace-one of any period both those that go and
        those that come.
        """
        by, k = self.by_period, self.records_per_person
        if by is None or self.together == 1:
            return self.together
        sides = 2 if self.relation == "replace-one" and not by.same_period else 1
        return self.law.spread(max(1, min(k, sides * by.most * by.most_in_one(of))))

    def price_nano(self, charge: AnyCharge) -> int:
        """The most that the charge can cost, in nano-epsilon.

        For a row: alpha * (k * its rise)^p, rounded up, p being the law's power. For a table: k^p
        times the payment of a cell, twice that for a pair of cells. Two cells of the domain never
        differ in the total. Of a table of some periods only the records count that may be of these.
        """
        if isinstance(charge, OpaqueCharge):
            return charge.epsilon_nano
        if isinstance(charge, TableCharge):
            factor, rise_nano = self._table_factor(charge), table_rise_nano(charge)
            together = self.together_in(charge.partition)
            return factor * together * self._most_inside(charge.partition) * rise_nano
        if self.by_period is not None:
            return self._spread_nano(charge, self.by_period)
        return self._row_nano(charge)

    def _row_nano(self, charge: Charge) -> int:
        row = primitive(charge.row)
        ends = sorted((row.low * row.multiplier, row.high * row.multiplier))
        risen = rise(*ends, relation=self.relation, null_cell=self.null_cell)
        return ceil(charge.alpha_nano * self.law.of_move(self.records_per_person * risen))

    def _spread_nano(self, charge: Charge, by: ByPeriod) -> int:
        """The price of a row whose k records may not all be alike.

        Past what 64 bits hold, which no limit pays for, it is that of k records that are alike.
        """
        k, alike = self.records_per_person, self._row_nano(charge)
        together, law = self.together_in(charge.row), self.law
        if alike * UNITS_PER_NANO >= LIMITS.int64_safe:
            return alike
        cells = together * by.greatest(
            _along(cell_shapes(charge.row, law), charge.alpha_nano, by), k
        )
        if self.relation == "add-remove":
            return -(-cells // UNITS_PER_NANO)
        if not by.same_period:
            # Of a row without values of both signs, leaving or arriving records count, not both.
            row = primitive(charge.row)
            sides = 1 if row.low >= 0 or row.high <= 0 else 2
            return min(alike, -(-law.together(sides) * cells // UNITS_PER_NANO))
        pairs = _along(pair_shapes_within(charge.row, law, by.axis), charge.alpha_nano, by)
        if self.null_cell:
            pairs = np.maximum(pairs, _along(cell_shapes(charge.row, law), charge.alpha_nano, by))
        return -(-together * by.greatest(pairs, k) // UNITS_PER_NANO)

    def _most_inside(self, partition: ProductPartition) -> int:
        """The most records of a person that may lie in cells of a table."""
        by, some = self.by_period, partition.restricted
        if by is None or some is None or some.axis != by.axis:
            return self.records_per_person
        return by.greatest((some.dense >= 0).astype(np.int64), self.records_per_person)

    def _table_factor(self, charge: TableCharge) -> int:
        if self.relation == "add-remove":
            return 1
        if not {parts.axis for parts in charge.partition.axes} <= self.alike:
            return 2
        return 1 if self.null_cell else 0


def _along(shapes: tuple[Shape, ...], alpha_nano: int, by: ByPeriod) -> Units:
    losses = [shape.loss(alpha_nano * UNITS_PER_NANO) for shape in shapes]
    return greatest_along(losses, by.axis, n_values=by.n_periods)


def table_rise_nano(charge: TableCharge) -> int:
    """The most that a cell pays for a table, in nano-epsilon per record.

    This is the rise of the table's alpha. If the rows of all cells have paid part of it before, the
    least of these payments is subtracted.
    """
    if len(charge.paid) < charge.partition.n_cells:
        return charge.alpha_nano
    return charge.alpha_nano - min(nano for _, nano in charge.paid)


def rise(low: Fraction, high: Fraction, *, relation: Relation, null_cell: bool) -> Fraction:
    """The most that one record changes a row; the price of the row is alpha times this.

    Args:
        low, high: least and greatest cell value of the row, or bounds of them.
        relation: neighbours add or remove a record, or replace one.
        null_cell: under replace-one, whether a record may also lie outside the domain, where the
            row is 0. Not used under add-remove.

    Returns:
        Under add-remove max(abs(low), abs(high)). Under replace-one high - low; with a null cell,
        0 counts as one of the values.
    """
    if relation == "add-remove":
        return max(abs(low), abs(high))
    return max(high, Fraction(0)) - min(low, Fraction(0)) if null_cell else high - low


def neighbours_of(meta: DatasetMeta) -> Neighbours:
    """The neighbours by a dataset's unit of privacy."""
    k, by_period = meta.most_together, _by_period(meta)
    return Neighbours(meta.relation, k, meta.has_null_cell, by_period, meta.law)


def _by_period(meta: DatasetMeta) -> ByPeriod | None:
    axis, unit, k = meta.domain.period_axis, meta.unit, meta.most_together
    if axis is None:
        return None
    most = unit.most_in_period(k)
    same = meta.relation == "replace-one" and unit.replaced == "same-period"
    if most >= k and not same:
        return None  # all records may be in one cell, or move between any two
    return ByPeriod(axis, meta.domain.sizes[axis], min(most, k), same)
