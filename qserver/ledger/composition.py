"""Composition of charges: payments that differ by cell, and a flat part for all cells.

A table costs every cell the same, so a number stands for it, not a table of losses. The exceptions
are cells whose rows have paid part of it before. Such a cell gets a *refund*: a negative payment
for the cell's row, which takes back the earlier charge.

A table that is restricted to some periods costs the cells of these alone. A cell pays for it as for
a row that is 1 there. Of a pair, each cell pays what its own period does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from qserver.errors import QueryError
from qserver.ledger.loss import UNITS_PER_NANO, cell_shapes
from qserver.ledger.maximum import RowPayment
from qserver.ledger.one_person import table_rise_nano
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.records.charge import AnyCharge, Charge, OpaqueCharge, TableCharge
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw


@dataclass(frozen=True)
class Flat:
    """Payments equal for all cells, in nano-epsilon.

    Args:
        tables_nano: for tables that tell values apart. A pair of cells of the domain pays it
            twice, as if the two were never in one cell of the table.
        totals_nano: for tables of the total alone, or of attributes that a replaced record keeps.
            The two cells of a pair never differ in these.
        opaque_nano: for opaque charges, once for a cell and once for a pair.
        partly: for tables of some values of one attribute, the attribute and what each of its
            values pays. Only pairs pay it here; single cells pay by rows. Empty where there are no
            such tables.
    """

    tables_nano: int = 0
    totals_nano: int = 0
    opaque_nano: int = 0
    partly: tuple[int, ...] = ()
    partly_axis: int | None = None

    def __add__(self, other: Flat) -> Flat:
        axes = {axis for axis in (self.partly_axis, other.partly_axis) if axis is not None}
        if len(axes) > 1:
            raise QueryError("charge.partition", "leave out values of one attribute alone")
        return Flat(
            self.tables_nano + other.tables_nano,
            self.totals_nano + other.totals_nano,
            self.opaque_nano + other.opaque_nano,
            _added(self.partly, other.partly),
            next(iter(axes), None),
        )

    @property
    def most_partly_nano(self) -> int:
        """The most that a cell pays for tables of some values of an attribute."""
        return max(self.partly, default=0)

    @property
    def cell_nano(self) -> int:
        """The whole payment of one cell, without `partly`."""
        return self.tables_nano + self.totals_nano + self.opaque_nano


@dataclass(frozen=True)
class Dues:
    """The sum of some charges.

    Args:
        rows: payments for the charged rows, each row once.
        cells: `rows` less the refunds, each row once. They raise the loss of a cell.
        flat: the payments that are equal for all cells.
        law: of the rows' noise.
    """

    rows: tuple[RowPayment, ...]
    cells: tuple[RowPayment, ...]
    flat: Flat
    law: NoiseLaw = LAPLACE

    @cached_property
    def most_units(self) -> int:
        """More units than rows and refunds can add to the loss of a cell or a pair."""
        payments = {*self.rows, *self.cells}
        pair = 1 + self.law.together(2)  # abs(h_c - h_c') is at most twice the greatest abs(h_c)
        return sum(pair * abs(p.units) * _ceiling(p.row, self.law) for p in payments)


def dues(
    charges: Sequence[AnyCharge],
    *,
    sizes: tuple[int, ...],
    records_per_person: int,
    alike: Collection[int] = (),
    law: NoiseLaw = LAPLACE,
    together: Callable[[LinearQuery | ProductPartition], int] = lambda _of: 1,
) -> Dues:
    """The sum of these charges.

    Args:
        records_per_person: k; 1 for what one record pays.
        alike: attributes that the two cells of a pair never differ in.
        law: of the noise.
        together: how often records that move a row, or a cell of a table, cost more than the sum
            of what they cost one by one.

    Raises:
        QueryError: one is not on the domain of these `sizes`.
    """
    rows: dict[LinearQuery, int] = {}
    refunds: dict[LinearQuery, int] = {}  # and the payments of cells alone for restricted tables
    flat = Flat()

    def add(units: dict[LinearQuery, int], row: LinearQuery, nano: int) -> None:
        more = nano * records_per_person * together(row) * UNITS_PER_NANO
        units[row] = units.get(row, 0) + more

    for charge in charges:
        if isinstance(charge, OpaqueCharge):
            flat += Flat(opaque_nano=charge.epsilon_nano)
            continue
        _check_domain(charge, sizes)
        if isinstance(charge, Charge):
            add(rows, charge.row, charge.alpha_nano)
            continue
        factor = records_per_person * together(charge.partition)
        flat += _flat(charge, factor, alike)
        if charge.partition.restricted is not None:
            inside, due = charge.partition.inside, table_rise_nano(charge) * factor
            refunds[inside] = refunds.get(inside, 0) + due * UNITS_PER_NANO
        for row, nano in _refunds(charge):
            add(refunds, row, -nano)
    cells = dict(rows)
    for row, units in refunds.items():
        cells[row] = cells.get(row, 0) + units
    return Dues(_payments(rows), _payments(cells), flat, law)


def _flat(charge: TableCharge, factor: int, alike: Collection[int]) -> Flat:
    nano = table_rise_nano(charge) * factor
    tells_apart = any(parts.axis not in alike for parts in charge.partition.axes)
    some = charge.partition.restricted
    if some is not None:
        if not tells_apart:
            return Flat()
        return Flat(
            partly=tuple(nano if place >= 0 else 0 for place in some.dense.tolist()),
            partly_axis=some.axis,
        )
    return Flat(tables_nano=nano) if tells_apart else Flat(totals_nano=nano)


def _refunds(charge: TableCharge) -> Iterable[tuple[LinearQuery, int]]:
    """Rows of the cells that pay less than the table's rise, and their refunds."""
    least = charge.alpha_nano - table_rise_nano(charge)
    return [
        (_cell_row(charge.partition, cell), nano - least)
        for cell, nano in charge.paid
        if nano > least
    ]


@lru_cache(maxsize=1 << 12)
def _cell_row(partition: ProductPartition, cell: int) -> LinearQuery:
    # Cached, as candidate plans name the same cells again and again.
    return partition.row(cell)


def _check_domain(charge: Charge | TableCharge, sizes: tuple[int, ...]) -> None:
    found = charge.row.sizes if isinstance(charge, Charge) else charge.partition.sizes
    if found != sizes:
        name = "charge.row" if isinstance(charge, Charge) else "charge.partition"
        raise QueryError(name, "be on the ledger's domain")


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    if not one or not other:
        return one or other
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _payments(units: dict[LinearQuery, int]) -> tuple[RowPayment, ...]:
    return tuple(RowPayment(row, amount) for row, amount in units.items() if amount)


def _ceiling(row: LinearQuery, law: NoiseLaw) -> int:
    """At least the greatest size of an entry of the row, to the law's power."""
    return sum(-(-shape.top // shape.denominator) for shape in cell_shapes(row, law))
