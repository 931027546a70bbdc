"""Neighbouring datasets: what one person changes, and so what a charge can cost at most."""

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
        """What the charge costs at most, in nano-epsilon.

        Of a row k * alpha * its rise, rounded up. Of a table k times what a cell pays, and twice
        that for a pair of cells; but two cells of the domain never differ in the total.
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

    The rise of the table's alpha, less what the cells' own rows have paid of it, where every cell
    has paid at least that much.
    """
    if len(charge.paid) < charge.partition.n_cells:
        return charge.alpha_nano
    return charge.alpha_nano - min(nano for _, nano in charge.paid)


def rise(low: Fraction, high: Fraction, *, relation: Relation, null_cell: bool) -> Fraction:
    """The most that one record changes a row: what alpha is multiplied by to give its price.

    Args:
        low, high: least and greatest cell value of the row, or bounds of them.
        relation: neighbours add or remove a record, or replace one.
        null_cell: under replace-one, whether a record may also lie outside the domain, where the
            row is 0. No matter under add-remove.

    Returns:
        max(abs(low), abs(high)) under add-remove; high - low, 0 counted among the values where
        the null cell counts, under replace-one.
    """
    if relation == "add-remove":
        return max(abs(low), abs(high))
    return max(high, Fraction(0)) - min(low, Fraction(0)) if null_cell else high - low
