"""Which measured rows and cells of tables may share one chain of noises.

Each answer to a row continues from the newest one. So a row is paired with at most one cell: in the
first table that has the row as a cell, on the same lattice step. A row that was measured twice is
not paired: inference relies on independent noises.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from qserver.inference.engine import InferenceEngine
from qserver.planning.constants import PLANNER
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery
from qserver.records.history import Measurement, TableMeasurement
from qserver.records.plan import TableCell

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Home:
    """The cell that a row is paired with, and its table."""

    table: TableMeasurement
    cell: TableCell


@dataclass
class OwnCells:
    """Pairs of rows and cells, which follow from the live measurements."""

    _n_seen: int = 0
    _counts: Counter[str] = field(default_factory=Counter)
    _rows: defaultdict[Axes, list[int]] = field(default_factory=lambda: defaultdict(list))
    _tables: defaultdict[Axes, list[int]] = field(default_factory=lambda: defaultdict(list))
    _cells: dict[tuple[str, LinearQuery], int | None] = field(default_factory=dict)

    def n_measured(self, engine: InferenceEngine, key: str) -> int:
        """Number of measurements of the row with this key."""
        self._follow(engine)
        return self._counts[key]

    def homes(self, engine: InferenceEngine, row: LinearQuery) -> dict[Fraction, Home]:
        """Per lattice step, the cell that a row measured on this step is paired with."""
        self._follow(engine)
        found: dict[Fraction, Home] = {}
        for number in self._tables[row.scope]:
            table = engine.live(number)
            if not isinstance(table, TableMeasurement) or table.step in found:
                continue
            cell = self.cell_of(table.partition, row)
            if cell is not None:
                found[table.step] = Home(table, TableCell(number, cell))
        return found

    def rows_of(
        self, engine: InferenceEngine, partition: ProductPartition, *, table: int | None
    ) -> Iterator[tuple[int, Measurement]]:
        """Cells of a table with the rows that are paired with them.

        Args:
            table: its id; None for a new one.
        """
        self._follow(engine)
        for number in self._rows[tuple(a.axis for a in partition.axes)]:
            row = engine.measurement(number)
            cell = self.cell_of(partition, row.row) if self._counts[row.key] == 1 else None
            if cell is None:
                continue
            home = self.homes(engine, row.row).get(row.step)
            if home is None or home.cell.table == table:
                yield cell, row

    def cell_of(self, partition: ProductPartition, row: LinearQuery) -> int | None:
        """Cached `partition.cell_of`."""
        key = (partition.key, row)
        if key not in self._cells:
            if len(self._cells) >= PLANNER.entries:
                self._cells.clear()
            self._cells[key] = partition.cell_of(row)
        return self._cells[key]

    def _follow(self, engine: InferenceEngine) -> None:
        for number in range(self._n_seen, engine.n_measurements):
            found = engine.live(number)
            if isinstance(found, TableMeasurement):
                self._tables[tuple(a.axis for a in found.partition.axes)].append(number)
                continue
            self._counts[found.key] += 1
            if not found.is_public and found.row.n_terms == 1:
                self._rows[found.row.scope].append(number)
        # A copy of the history that more was tried on may have been followed before.
        self._n_seen = max(self._n_seen, engine.n_measurements)
