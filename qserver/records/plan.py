"""The rows, tables and samples that a plan measures."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from qserver.errors import InputError
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.records.charge import OpaqueCharge, check_nano
from qserver.records.codec import as_
from qserver.records.history import Measurement, TableMeasurement


@dataclass(frozen=True)
class TableCell:
    """One cell of a measured table: the table's id, and the cell's place in its partition."""

    as_list: ClassVar = True

    table: int
    cell: int

    def __post_init__(self) -> None:
        if self.table < 0 or self.cell < 0:
            raise InputError("cell", "name a table and a cell of it, from 0")


@dataclass(frozen=True)
class PlannedRow:
    """A row to be measured, or a measured one to be refined.

    Args:
        row: primitive row h.
        key: the row's key.
        alpha_nano: 1 / b afterwards, in nano-epsilon per record; 0 for a public row.
        step: lattice step, in records; a refined row keeps its step.
        refines: id of the measurement that the new answer replaces, or None.
        old_alpha_nano: the paid alpha of the answer that the noise continues from; 0 for none.
        cell: a cell of a table that equals this row and has less noise than `refines`: the noise
            continues from it. None otherwise.
    """

    row: LinearQuery
    key: str
    alpha_nano: int = field(metadata=as_("alpha"))
    step: Fraction
    refines: int | None = None
    old_alpha_nano: int = field(default=0, metadata=as_("old_alpha", last=1))
    cell: TableCell | None = None

    def __post_init__(self) -> None:
        if self.refines is None and self.cell is None:
            if self.old_alpha_nano != 0:
                raise InputError("old_alpha_nano", "be 0 for a new row", self.old_alpha_nano)
            return
        if not 0 < self.old_alpha_nano < self.alpha_nano:
            raise InputError("old_alpha_nano", "lie between 0 and `alpha_nano`, outside both")
        if self.refines is not None and self.refines < 0:
            raise InputError("refines", "be >= 0", self.refines)

    @classmethod
    def refining(cls, old: Measurement, *, alpha_nano: int) -> PlannedRow:
        """The measurement `old` raised to a larger alpha.

        Raises:
            InputError: the alpha is no larger, or the row is public.
        """
        return cls(old.row, old.key, alpha_nano, old.step, old.id, old.alpha_nano)

    @property
    def charge_nano(self) -> int:
        """The charge per unit of abs(h), in nano-epsilon: the rise of alpha."""
        return self.alpha_nano - self.old_alpha_nano

    def refines_live(self, live: Measurement) -> bool:
        """Whether `live` is exactly the measurement that this row is planned to refine."""
        planned = (self.refines, self.old_alpha_nano, self.key, self.step)
        found = (live.id, live.alpha_nano, live.key, live.step)
        return planned == found and self.row == live.row


@dataclass(frozen=True)
class CellSource:
    """A cell whose row was measured with less noise than the table; it continues from that row.

    Args:
        cell: place in the partition.
        row: id of the row's measurement.
        alpha_nano: of that measurement.
    """

    as_list: ClassVar = True

    cell: int
    row: int
    alpha_nano: int


@dataclass(frozen=True)
class PlannedTable:
    """A table to be measured, or a measured one to be refined.

    Args:
        partition: whose cells are measured.
        alpha_nano: 1 / b afterwards, in nano-epsilon per record.
        step: lattice step, in records; a refined table keeps its step.
        refines: id of the table that the new answers replace, or None.
        old_alpha_nano: alpha of that table; 0 for a new one.
        sources: cells that continue from a measured row with an alpha above `old_alpha_nano`, in
            rising order. If that alpha is at least `alpha_nano`, the cell takes the row's released
            answer as it is.
    """

    partition: ProductPartition = field(metadata=as_("table"))
    alpha_nano: int = field(metadata=as_("alpha"))
    step: Fraction
    refines: int | None = None
    old_alpha_nano: int = field(default=0, metadata=as_("old_alpha"))
    sources: tuple[CellSource, ...] = ()

    def __post_init__(self) -> None:
        if (self.refines is None) != (self.old_alpha_nano == 0):
            raise InputError("old_alpha_nano", "be 0 just for a new table", self.old_alpha_nano)
        if not 0 <= self.old_alpha_nano < self.alpha_nano:
            raise InputError("old_alpha_nano", "be >= 0 and less than `alpha_nano`")
        cells = [s.cell for s in self.sources]
        if cells != sorted(set(cells)) or any(c >= self.partition.n_cells for c in cells):
            raise InputError("sources", "name cells of the partition, in rising order")
        if any(s.alpha_nano <= self.old_alpha_nano for s in self.sources):
            raise InputError("sources", "have more than `old_alpha_nano` each")

    @property
    def key(self) -> str:
        """The partition's key."""
        return self.partition.key

    @property
    def charge_nano(self) -> int:
        """The charge of a cell without a source, in nano-epsilon: the rise of alpha."""
        return self.alpha_nano - self.old_alpha_nano

    @property
    def paid(self) -> tuple[tuple[int, int], ...]:
        """Per source: the cell, and the nano-epsilon of `charge_nano` that its row paid already."""
        return tuple(
            (s.cell, min(s.alpha_nano, self.alpha_nano) - self.old_alpha_nano) for s in self.sources
        )

    def refines_live(self, live: TableMeasurement) -> bool:
        """Whether `live` is exactly the table that this one is planned to refine."""
        planned = (self.refines, self.old_alpha_nano, self.key, self.step)
        return planned == (live.id, live.alpha_nano, live.key, live.step)


@dataclass(frozen=True)
class Sampled:
    """A plan of two stages: noisy tables of a secret sample decide how exact each table gets.

    Both stages are charged before anything is drawn, for any decision. Each is an opaque charge for
    every cell and every pair of cells, under the population's neighbour relation.

    Args:
        first_alpha_nano: 1 / b of each table of the sample, in nano-epsilon per record of it.
        sample_nano: charge of all tables of the sample together, after amplification.
        alpha_nano: most sum of the rises of alpha of all final tables.
        tables_nano: charge of the final tables.
    """

    first_alpha_nano: int
    sample_nano: int
    alpha_nano: int
    tables_nano: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_nano(name, value)
        if self.tables_nano < self.alpha_nano:
            raise InputError("tables_nano", "be at least `alpha_nano`", self.tables_nano)

    def charges(self, job: str) -> list[OpaqueCharge]:
        """The two charges: of the sample, and of the tables."""
        return [OpaqueCharge(self.sample_nano, job), OpaqueCharge(self.tables_nano, job)]


@dataclass(frozen=True)
class Second:
    """The second purchase of a plan: the released answers of its first tables choose its tables.

    It is charged before anything is drawn, for any decision, as an opaque charge for every cell and
    every pair of cells, under the population's neighbour relation.

    Args:
        alpha_nano: most sum of the rises of alpha of all its tables.
        tables_nano: its charge.
    """

    alpha_nano: int
    tables_nano: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_nano(name, value)
        if self.tables_nano < self.alpha_nano:
            raise InputError("tables_nano", "be at least `alpha_nano`", self.tables_nano)

    def charge(self, job: str) -> OpaqueCharge:
        """The charge of all its tables."""
        return OpaqueCharge(self.tables_nano, job)


Planned = PlannedRow | PlannedTable
