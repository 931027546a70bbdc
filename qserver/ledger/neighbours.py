"""Neighbouring datasets: how much one person changes, and so the most that a charge can cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from qserver.errors import DomainError
from qserver.query.primitive import primitive
from qserver.records.charge import AnyCharge, OpaqueCharge, Relation, TableCharge


@dataclass(frozen=True)
class Neighbours:
    """Which datasets differ by one person.

    Args:
        relation: `add-remove` or `replace-one` record.
        records_per_person: k, most records that one person owns, >= 1.
        null_cell: under replace-one, whether a record may lie outside the domain.

    Raises:
        DomainError: a value is out of range.
    """

    relation: Relation = "add-remove"
    records_per_person: int = 1
    null_cell: bool = True

    def __post_init__(self) -> None:
        if self.relation not in ("add-remove", "replace-one"):
            raise DomainError("relation", "be `add-remove` or `replace-one`", self.relation)
        k = self.records_per_person
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise DomainError("records_per_person", "be a whole number >= 1", k)

    def price_nano(self, charge: AnyCharge) -> int:
        """The most that the charge can cost, in nano-epsilon.

        For a row: k * alpha * its rise, rounded up. For a table: k times the payment of a cell,
        twice that for a pair of cells. Two cells of the domain never differ in the total.
        """
        if isinstance(charge, OpaqueCharge):
            return charge.epsilon_nano
        if isinstance(charge, TableCharge):
            return self._table_factor(charge) * self.records_per_person * table_rise_nano(charge)
        row = primitive(charge.row)
        ends = sorted((row.low * row.multiplier, row.high * row.multiplier))
        risen = rise(*ends, relation=self.relation, null_cell=self.null_cell)
        return ceil(self.records_per_person * charge.alpha_nano * risen)

    def _table_factor(self, charge: TableCharge) -> int:
        if self.relation == "add-remove":
            return 1
        if charge.partition.axes:
            return 2
        return 1 if self.null_cell else 0


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
