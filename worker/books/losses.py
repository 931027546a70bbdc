"""The loss of one person's records, from what the chains weigh.

A record of cell c loses sum of alpha(t) over the tables and w(h) abs(h_c) over the rows, where w(h)
is what the row's chains weigh beyond its tables. Replaced by a record of c' it loses, of a table
that tells the two apart, 2 alpha(t), and w(h) abs(h_c - h_c') of a row. A table that has no cell
for c or c' costs nothing there. A person has k records.

*Tables that hold some values of one attribute alone.* Each cell of a pair that such a table tells
apart loses its alpha where the table has a cell for it. A search that has not fixed the attribute
yet takes the value that loses most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from worker.books.chains import Chains
from worker.books.functions import Cell, Row, Table
from worker.books.grid import Floats, Grid

_DIGITS = 60


@dataclass(frozen=True)
class Losses:
    """What the answers in force cost, in nano-epsilon.

    Args:
        k: most records of one person.
        weights: w(h) of every row, never negative.
        tables: every table with its alpha.
        flat: what every cell and, `pair_flat`, every pair loses besides, for all k records.
    """

    k: int
    weights: Mapping[Row, int]
    tables: Sequence[tuple[Table, int]]
    flat: Fraction = Fraction(0)
    pair_flat: Fraction = Fraction(0)

    @classmethod
    def of(cls, chains: Chains, *, k: int, flat: Fraction, pair_flat: Fraction) -> Losses:
        """The losses of these chains."""
        weights = {row: weight for row, weight in chains.weights().items() if weight}
        return cls(k, weights, chains.tables(), flat, pair_flat)

    @property
    def of_tables(self) -> int:
        """What every cell loses by tables that hold all records, for all k records."""
        return self.k * sum(alpha for table, alpha in self.tables if table.held is None)

    @property
    def held(self) -> dict[Row, int]:
        """Of tables that hold some records alone: the rows of these, with the tables' alphas."""
        found: dict[Row, int] = {}
        for table, alpha in self.tables:
            if table.held is not None:
                found[table.held] = found.get(table.held, 0) + alpha
        return found

    @property
    def of_cells(self) -> dict[Row, int]:
        """The weights with which rows cost a cell: their own, and those of `held`."""
        found = dict(self.weights)
        for row, alpha in self.held.items():
            found[row] = found.get(row, 0) + alpha
        return found

    def of_cell(self, cell: Cell) -> Fraction:
        """The loss of somebody whose records all are in one cell, exactly."""
        rows = sum((w * abs(row.at(cell)) for row, w in self.of_cells.items()), Fraction(0))
        return self.k * rows + self.of_tables + self.flat

    def of_pair(self, one: Cell, other: Cell) -> Fraction:
        """The loss of somebody whose records all move from one cell to another, exactly."""
        rows = sum(
            (w * abs(row.at(one) - row.at(other)) for row, w in self.weights.items()), Fraction(0)
        )
        tables = sum(
            alpha * table.n_held((one, other))
            for table, alpha in self.tables
            if table.tells_apart(one, other)
        )
        return self.k * (rows + tables) + self.pair_flat


def sample_loss(nominal_nano: int, rate: Fraction) -> Fraction:
    """ln(1 + rate (e^x - 1)) for a record, in nano-epsilon, never less than the true figure."""
    with localcontext() as context:
        context.prec = _DIGITS
        x = Decimal(nominal_nano) / 10**9
        part = Decimal(rate.numerator) / rate.denominator
        found = (1 + part * (x.exp() - 1)).ln() * 10**9
        # All steps together err by far less than one part in 10^50 of e^x, so of 10^-20 of x.
        return Fraction(found) + Fraction(1, 10**20)


class HeldTables:
    """Bounds of these losses, by branch of a search.

    Args:
        before: losses that are proven; their part of the tables is no rise.
        columns: per attribute the classes that a cell may have.
        axes: the attributes in the order in which they are fixed.
        alike: an attribute whose value both cells share, or None.
    """

    def __init__(
        self,
        grid: Grid,
        losses: Losses,
        before: Losses,
        *,
        columns: Sequence[NDArray[np.intp]],
        axes: Sequence[int],
        alike: int | None,
    ) -> None:
        self._turns = {axis: i for i, axis in enumerate(axes)}
        self._by_axis: dict[int, Floats] = {}
        known = [alpha for _, alpha in before.tables] + [0] * len(losses.tables)
        for (table, alpha), old in zip(losses.tables, known, strict=False):
            if table.held is None or {axis for axis, _ in table.axes} == {alike}:
                continue
            ((axis, runs),) = table.held.terms[0].factors
            inside = grid.on_classes(axis, runs)[columns[axis]]
            weights = float(losses.k) * np.outer([alpha, alpha - old], inside)
            self._by_axis[axis] = self._by_axis.get(axis, 0.0) + weights

    def bounds(
        self,
        classes: Sequence[NDArray[np.intp]],
        *,
        turn: int,
        which: int,
        n_values: int,
    ) -> Floats:
        """Both weights' bounds, shape (2, branches * values).

        Args:
            classes: per cell of the pair the classes that are fixed, shape (attributes, branches).
            turn, which: the attribute and the cell that are fixed next.
        """
        n = classes[0].shape[1]
        total = np.zeros((2, n, n_values))
        for axis, weights in self._by_axis.items():
            at = self._turns.get(axis, len(self._turns))
            for cell, fixed in enumerate(classes):
                if at == turn and cell == which:
                    total += weights[:, None, :]
                elif at < len(fixed):
                    total += weights[:, fixed[at], None]
                else:
                    total += weights.max(axis=1)[:, None, None]
        return total.reshape(2, -1)
