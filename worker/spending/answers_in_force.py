"""The measurements in force, and the released answer that each new draw continues from.

Answers to one row form a chain. Each is drawn from the newest, which has the least noise, and the
chain costs as much as its last answer. Two draws from one answer are no chain; they would cost
more than their charges. A row may be released alone and as a cell of tables. So each row is paired
with at most one cell: its first measurement with the first table that has it as a cell, both on
one lattice step. A pair shares one chain. All of this is public: rows, alphas, steps, ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from qserver.errors import InputError, MeasurementError, StaleVersionError
from qserver.query.linear_query import LinearQuery
from qserver.records.history import AnyMeasurement, Measurement, TableMeasurement, place_measurement
from qserver.records.plan import CellSource, Planned, PlannedRow, PlannedTable, TableCell


@dataclass(frozen=True)
class Origin:
    """A released answer that a draw continues from: its lattice index and its 1 / b."""

    index: int
    alpha_nano: int


class Live:
    """The measurements in force, in order of their ids.

    Args:
        measurements: those of the newest history.
    """

    def __init__(self, measurements: Sequence[AnyMeasurement]) -> None:
        self._found = list(measurements)

    def check(self, planned: Sequence[Planned]) -> None:
        """Return if every answer that a plan continues is in force as planned.

        Each row and table is checked against the state after those before it, since it will be
        drawn from that state. For example, if two rows would continue one cell, the second finds
        that the first has taken the cell's noise.

        Raises:
            StaleVersionError: an answer is not in force, for example because it was raised since.
            MeasurementError: the plan would raise one measurement twice, or split a chain in two.
        """
        raised = [p.refines for p in planned if p.refines is not None]
        if any(number >= len(self._found) for number in raised):
            raise StaleVersionError("The plan refines a measurement that is not in force.")
        if len(raised) != len(set(raised)):
            raise MeasurementError from InputError("plan", "refine each measurement once")
        then = Live(self._found)
        for one in planned:
            if isinstance(one, PlannedRow):
                then._check_row(one)
                then.take_in(one, (0,))
            else:
                then._check_table(one)
                # Rows are drawn before tables, so the alpha before this plan is sound too.
                if not all(any(x._is_source(one, s) for x in (self, then)) for s in one.sources):
                    raise StaleVersionError("A cell's row was refined since the plan was made.")
                then._check_pairs(one)
                then.take_in(one, (0,) * one.partition.n_cells)

    def take_in(self, planned: Planned, indices: Sequence[int]) -> None:
        """Put a released row or table in force, under the next id or the refined one's.

        Args:
            indices: lattice indices, one for a row, one per cell for a table.
        """
        number = len(self._found) if planned.refines is None else planned.refines
        alpha, step = planned.alpha_nano, planned.step
        new: AnyMeasurement
        if isinstance(planned, PlannedRow):
            new = Measurement(number, planned.row, planned.key, alpha, step, *indices)
        else:
            new = TableMeasurement(number, planned.partition, alpha, step, tuple(indices))
        place_measurement(self._found, new)

    def origin_of_row(self, row: PlannedRow) -> Origin | None:
        """The answer that a checked row continues: the newer one of row and cell.

        None for a new row, which gets independent noise.

        Raises:
            MeasurementError: no answer in force has as little noise as was paid for.
        """
        found = []
        if row.refines is not None:
            own = self._found[row.refines]
            if isinstance(own, Measurement):
                found.append(Origin(own.index, own.alpha_nano))
        cell = self._paired_cell(row)
        if cell is not None:
            table = self._found[cell.table]
            if isinstance(table, TableMeasurement):
                found.append(Origin(table.indices[cell.cell], table.alpha_nano))
        newest = max(found, key=lambda origin: origin.alpha_nano, default=None)
        if newest is not None and newest.alpha_nano < row.old_alpha_nano:
            raise _undercharged()
        return newest

    def origins_of_cells(self, table: PlannedTable) -> Mapping[int, Origin]:
        """The answers that the cells of a checked table continue, by cell.

        Each is the newer one of cell and row. A cell without one gets independent
        noise. Rows that the plan does not name as sources count as well: then the charge is more
        than the draw costs, never less.

        Raises:
            MeasurementError: a source is not in force with as little noise as was paid for.
        """
        found: dict[int, Origin] = {}
        old = None if table.refines is None else self._found[table.refines]
        if isinstance(old, TableMeasurement):
            found = {cell: Origin(index, old.alpha_nano) for cell, index in enumerate(old.indices)}
        for cell, row in self._rows_of_cells(table).items():
            if row.alpha_nano > table.old_alpha_nano:
                found[cell] = Origin(row.index, row.alpha_nano)
        if any(
            s.cell not in found or found[s.cell].alpha_nano < s.alpha_nano for s in table.sources
        ):
            raise _undercharged()
        return found

    def _check_row(self, row: PlannedRow) -> None:
        own = self._get(row.refines)
        if row.cell is None:
            if row.refines is not None and not (
                isinstance(own, Measurement) and row.refines_live(own)
            ):
                raise StaleVersionError("A row was refined since the plan was made.")
            return
        table = self._get(row.cell.table)
        live = (
            isinstance(table, TableMeasurement)
            and (table.alpha_nano, table.step) == (row.old_alpha_nano, row.step)
            and table.partition.cell_of(row.row) == row.cell.cell
        )
        if isinstance(own, Measurement):
            live = live and own.key == row.key and own.alpha_nano <= row.old_alpha_nano
        if not live:
            raise StaleVersionError(
                "A table or its cell's row was refined since the plan was made."
            )
        first = self._first_id(row.row, row.step)
        if first != row.refines or self._home(row.row, row.step) != row.cell:
            raise MeasurementError from InputError(
                "cell", "be what the row's answer is paired with"
            )

    def _check_table(self, table: PlannedTable) -> None:
        old = self._get(table.refines)
        if table.refines is not None:
            if not (isinstance(old, TableMeasurement) and table.refines_live(old)):
                raise StaleVersionError("A table was refined since the plan was made.")
        elif any(
            isinstance(m, TableMeasurement) and m.key == table.key and not m.law.is_additive
            for m in self._found
        ):
            raise StaleVersionError("The table was measured since the plan was made.")

    def _check_pairs(self, table: PlannedTable) -> None:
        pairs = self._rows_of_cells(table) if table.sources else {}
        if any(s.cell not in pairs or pairs[s.cell].id != s.row for s in table.sources):
            raise MeasurementError from InputError("sources", "be rows paired with their cells")

    def _is_source(self, table: PlannedTable, source: CellSource) -> bool:
        """Whether a source is in force as planned: the cell's row, with its alpha and step."""
        row = self._get(source.row)
        if not isinstance(row, Measurement):
            return False
        same = (row.alpha_nano, row.step) == (source.alpha_nano, table.step)
        return same and table.partition.cell_of(row.row) == source.cell

    def _paired_cell(self, row: PlannedRow) -> TableCell | None:
        """The cell that shares a chain with a raised row."""
        if row.cell is not None or row.refines is None:
            return row.cell
        is_first = self._first_id(row.row, row.step) == row.refines
        return self._home(row.row, row.step) if is_first else None

    def _rows_of_cells(self, table: PlannedTable) -> Mapping[int, Measurement]:
        """The rows that share a chain with a cell of a table, by cell."""
        found: dict[int, Measurement] = {}
        for row in self._found:
            if not isinstance(row, Measurement) or row.is_public or row.step != table.step:
                continue
            cell = table.partition.cell_of(row.row)
            # Of a row's several measurements the first is the paired one.
            if cell is None or cell in found:
                continue
            home = self._home(row.row, row.step)
            if home is None or (table.refines is not None and home.table >= table.refines):
                found[cell] = row
        return found

    def _home(self, row: LinearQuery, step: Fraction) -> TableCell | None:
        """The cell that may share a chain with a row: in the first table that has it."""
        for table in self._found:
            if isinstance(table, TableMeasurement) and table.step == step:
                cell = table.partition.cell_of(row)
                if cell is not None:
                    return TableCell(table.id, cell)
        return None

    def _first_id(self, row: LinearQuery, step: Fraction) -> int | None:
        """The first noisy measurement of a row on this lattice step."""
        for found in self._found:
            if not isinstance(found, Measurement) or found.is_public or found.step != step:
                continue
            if found.row == row:
                return found.id
        return None

    def _get(self, number: int | None) -> AnyMeasurement | None:
        if number is None or number >= len(self._found):
            return None
        return self._found[number]


def _undercharged() -> MeasurementError:
    error = MeasurementError()
    error.__cause__ = InputError("plan", "continue from answers that are paid for")
    return error
