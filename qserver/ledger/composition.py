"""What charges come to: rows and refunds, which differ from cell to cell, and what does not.

A table costs every cell the same, so it is a number and no table of losses; only the cells whose
own rows have paid part of it before differ. What they need not pay again is a *refund*: a negative
payment for the cell's own row, which takes back what that row was charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from qserver.errors import QueryError
from qserver.ledger.loss import UNITS_PER_NANO, cell_shapes
from qserver.ledger.maximum import RowPayment
from qserver.ledger.neighbours import table_rise_nano
from qserver.query.linear import LinearQuery
from qserver.query.partition import ProductPartition
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge, TableCharge


@dataclass(frozen=True)
class Flat:
    """What every cell pays alike, in nano-epsilon.

    Args:
        tables_nano: of tables that tell values apart. Two cells of the domain pay it twice, as if
            no two of them ever were in one cell of the table.
        totals_nano: of tables of the total alone, which two cells of the domain never differ in.
        opaque_nano: of opaque charges: once, for a cell and for a pair.
    """

    tables_nano: int = 0
    totals_nano: int = 0
    opaque_nano: int = 0

    def __add__(self, other: Flat) -> Flat:
        return Flat(
            self.tables_nano + other.tables_nano,
            self.totals_nano + other.totals_nano,
            self.opaque_nano + other.opaque_nano,
        )

    @property
    def cell_nano(self) -> int:
        """What a cell pays of it."""
        return self.tables_nano + self.totals_nano + self.opaque_nano


@dataclass(frozen=True)
class Dues:
    """What some charges come to.

    Args:
        rows: the rows charged, each once.
        cells: the same less the refunds, each row once: what the loss of a cell grows by.
        flat: what every cell pays alike.
    """

    rows: tuple[RowPayment, ...]
    cells: tuple[RowPayment, ...]
    flat: Flat

    @cached_property
    def most_units(self) -> int:
        """More than the rows and refunds can change the loss of a cell or a pair, in units."""
        payments = {*self.rows, *self.cells}
        return sum(3 * abs(p.units) * _ceiling(p.row) for p in payments)


def dues(charges: Sequence[AnyCharge], *, sizes: tuple[int, ...], records_per_person: int) -> Dues:
    """What these charges come to.

    Raises:
        QueryError: one is not on the domain of these `sizes`.
    """
    scale = records_per_person * UNITS_PER_NANO
    rows: dict[LinearQuery, int] = {}
    refunds: dict[LinearQuery, int] = {}
    flat = Flat()
    for charge in charges:
        if isinstance(charge, OpaqueCharge):
            flat += Flat(opaque_nano=charge.epsilon_nano)
            continue
        _check_domain(charge, sizes)
        if isinstance(charge, Charge):
            _add(rows, charge.row, charge.alpha_nano * scale)
            continue
        flat += _flat(charge, records_per_person)
        for row, nano in _refunds(charge):
            _add(refunds, row, -nano * scale)
    cells = dict(rows)
    for row, units in refunds.items():
        _add(cells, row, units)
    return Dues(_payments(rows), _payments(cells), flat)


def _flat(charge: TableCharge, records_per_person: int) -> Flat:
    nano = table_rise_nano(charge) * records_per_person
    return Flat(tables_nano=nano) if charge.partition.axes else Flat(totals_nano=nano)


def _refunds(charge: TableCharge) -> Iterable[tuple[LinearQuery, int]]:
    """Rows of cells that pay less than the rise of the table, and how much less."""
    least = charge.alpha_nano - table_rise_nano(charge)
    return [
        (_cell_row(charge.partition, cell), nano - least)
        for cell, nano in charge.paid
        if nano > least
    ]


@lru_cache(maxsize=1 << 12)
def _cell_row(partition: ProductPartition, cell: int) -> LinearQuery:
    # Candidate plans name the same cells again and again.
    return partition.row(cell)


def _check_domain(charge: Charge | TableCharge, sizes: tuple[int, ...]) -> None:
    found = charge.row.sizes if isinstance(charge, Charge) else charge.partition.sizes
    if found != sizes:
        name = "charge.row" if isinstance(charge, Charge) else "charge.partition"
        raise QueryError(name, "be on the ledger's domain")


def _add(units: dict[LinearQuery, int], row: LinearQuery, amount: int) -> None:
    units[row] = units.get(row, 0) + amount


def _payments(units: dict[LinearQuery, int]) -> tuple[RowPayment, ...]:
    return tuple(RowPayment(row, amount) for row, amount in units.items() if amount)


def _ceiling(row: LinearQuery) -> int:
    """At least the greatest size of an entry of the row."""
    return sum(-(-shape.top // shape.denominator) for shape in cell_shapes(row))
