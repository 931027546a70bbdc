"""What pairs of cells lose by tables that hold some values of one attribute alone.

Each cell of a pair that such a table tells apart loses its alpha where the table has a cell for it.
A search that has not fixed the attribute yet takes the value that loses most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.books.grid import Floats, Grid
from worker.books.losses import Losses


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
