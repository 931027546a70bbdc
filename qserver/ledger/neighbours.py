"""Neighbouring datasets: how much one person changes, and so the most that a charge can cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from qserver.errors import DomainError
from qserver.ledger.limits import LIMITS
from qserver.ledger.loss import UNITS_PER_NANO, Shape, cell_shapes, pair_shapes_within
from qserver.ledger.periods.by_period import ByPeriod, Units, greatest_along
from qserver.query.partition import ProductPartition
from qserver.query.primitive import primitive
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge, Relation, TableCharge


@dataclass(frozen=True)
class Neighbours:
    """Which datasets differ by one person.

    Args:
        relation: `add-remove` or `replace-one` record.
        records_per_person: k, most records that one person owns, >= 1.
        null_cell: under replace-one, whether a record may lie outside the domain.
        by_period: how the k records may be spread over periods; None if all may be alike.

    Raises:
        DomainError: a value is out of range.
    """

    relation: Relation = "add-remove"
    records_per_person: int = 1
    null_cell: bool = True
    by_period: ByPeriod | None = None

    def __post_init__(self) -> None:
        if self.relation not in ("add-remove", "replace-one"):
            raise DomainError("relation", "be `add-remove` or `replace-one`", self.relation)
        k = self.records_per_person
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise DomainError("records_per_person", "be a whole number >= 1", k)

    @property
    def alike(self) -> frozenset[int]:
        """Attributes that the two cells of a pair never differ in."""
        by = self.by_period
        return frozenset() if by is None or not by.same_period else frozenset({by.axis})

    @property
    def most_alike(self) -> int:
        """Most records of one person that may all be in one cell."""
        return self.records_per_person if self.by_period is None else self.by_period.most

    def price_nano(self, charge: AnyCharge) -> int:
        """The most that the charge can cost, in nano-epsilon.

        For a row: k * alpha * its rise, rounded up. For a table: k times the payment of a cell,
        twice that for a pair of cells. Two cells of the domain never differ in the total. Of a
        table of some periods only the records count that may be of these.
        """
        if isinstance(charge, OpaqueCharge):
            return charge.epsilon_nano
        if isinstance(charge, TableCharge):
            factor, rise_nano = self._table_factor(charge), table_rise_nano(charge)
            return factor * self._most_inside(charge.partition) * rise_nano
        if self.by_period is not None:
            return self._spread_nano(charge, self.by_period)
        return self._row_nano(charge)

    def _row_nano(self, charge: Charge) -> int:
        row = primitive(charge.row)
        ends = sorted((row.low * row.multiplier, row.high * row.multiplier))
        risen = rise(*ends, relation=self.relation, null_cell=self.null_cell)
        return ceil(self.records_per_person * charge.alpha_nano * risen)

    def _spread_nano(self, charge: Charge, by: ByPeriod) -> int:
        """The price of a row whose k records may not all be alike.

        Past what 64 bits hold, which no limit pays for, it is that of k records that are alike.
        """
        k, alike = self.records_per_person, self._row_nano(charge)
        if alike * UNITS_PER_NANO >= LIMITS.int64_safe:
            return alike
        cells = by.greatest(_along(cell_shapes(charge.row), charge.alpha_nano, by), k)
        if self.relation == "add-remove":
            return -(-cells // UNITS_PER_NANO)
        if not by.same_period:
            # Of a row without values of both signs, those that go or those that come count.
            row = primitive(charge.row)
            sides = 1 if row.low >= 0 or row.high <= 0 else 2
            return min(alike, -(-sides * cells // UNITS_PER_NANO))
        pairs = _along(pair_shapes_within(charge.row, by.axis), charge.alpha_nano, by)
        if self.null_cell:
            pairs = np.maximum(pairs, _along(cell_shapes(charge.row), charge.alpha_nano, by))
        return -(-by.greatest(pairs, k) // UNITS_PER_NANO)

    def _most_inside(self, partition: ProductPartition) -> int:
        """Most records of a person that may be in cells of a table."""
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
    """The most that a cell pays of a table, in nano-epsilon per record.

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
