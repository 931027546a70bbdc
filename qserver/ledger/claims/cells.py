"""Cells that charges tell apart, and what each of them loses, in floats: only to choose by.

A domain may have 10^12 cells, so cells are named by their values, one for each attribute, and only
those that are asked about are computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qserver.ledger.claims.charged import Charged, places
from qserver.query.linear import LinearQuery

Floats: TypeAlias = NDArray[np.float64]
Cells: TypeAlias = NDArray[np.int64]
"""Cells of the domain, shape (cells, attributes)."""


class ToldApart:
    """The cells of a domain as far as charges and a claimed query tell them apart.

    Args:
        charged: what was charged.
        query: the claimed query.
        idle: attributes whose last value is left out.
    """

    def __init__(
        self, charged: Charged, query: LinearQuery, idle: Collection[int] = frozenset()
    ) -> None:
        self._charged, self._query = charged, query
        starts: list[set[int]] = [{0} for _ in query.sizes]
        for row in (query, *charged.rows):
            for term in row.terms:
                for factor in term.factors:
                    starts[factor.axis].update(factor.weights.stops[:-1])
        for table in charged.tables.values():
            for parts in table.partition.axes:
                starts[parts.axis].update(parts.stops[:-1])
        for axis in idle:
            starts[axis].discard(query.sizes[axis] - 1)
        self.values = [np.array(sorted(found), dtype=np.int64) for found in starts]

    @property
    def n_cells(self) -> int:
        """Number of cells that may be told apart."""
        return prod(map(len, self.values))

    @property
    def n_rows(self) -> int:
        """Number of rows and tables: the work of a look at some cells."""
        return 1 + len(self._charged.rows) + len(self._charged.tables)

    def all_cells(self) -> Cells:
        """One cell of each kind."""
        grid = np.meshgrid(*self.values, indexing="ij")
        return np.stack([axis.ravel() for axis in grid], axis=1)

    def around(self, cell: Cells, most: int) -> Cells:
        """The cell, then those that differ from it in one attribute, at most `most` for each."""
        found = [cell[None, :]]
        for axis, values in enumerate(self.values):
            others = values[values != cell[axis]]
            others = others[:: max(1, -(-len(others) // most))]
            moved = np.repeat(cell[None, :], len(others), axis=0)
            moved[:, axis] = others
            found.append(moved)
        return np.concatenate(found)

    def asked(self, cells: Cells) -> Floats:
        """The claimed query's weight of each cell."""
        return _at(self._query, cells)

    def losses(self, cells: Cells) -> Floats:
        """The loss of a record more in each cell, in 1e-9 epsilon."""
        total = np.full(len(cells), float(self._charged.every_nano))
        for alphas, moved in self._rows(cells):
            total += np.abs(alphas * moved).sum(axis=0)
        return total

    def shifts(self, cells: Cells) -> Floats:
        """All rows on these cells, each times its alpha; rows that are alike there are one.

        Returns:
            Shape (rows, cells): the loss of a vector u on the cells is the sum of abs(this @ u).
        """
        found: dict[bytes, Floats] = {}
        for alphas, moved in self._rows(cells):
            for alpha, row in zip(alphas[:, 0], moved, strict=True):
                at = np.flatnonzero(row)
                if alpha and len(at):
                    # Rows that are multiples of one another add up, whatever u is.
                    shape = row / row[at[0]]
                    key = shape.tobytes()
                    found[key] = found.get(key, 0.0) + alpha * abs(row[at[0]]) * shape
        every = float(self._charged.every_nano)
        alone = [np.eye(len(cells)) * every] if every else []
        return np.concatenate([np.array(list(found.values())).reshape(-1, len(cells)), *alone])

    def _rows(self, cells: Cells) -> Iterator[tuple[Floats, Floats]]:
        """Each row, and each table's cells that are met: alphas (rows, 1), values (rows, cells)."""
        for row, alpha in self._charged.rows.items():
            yield np.array([[float(alpha)]]), _at(row, cells)[None, :]
        for table in self._charged.tables.values():
            met = np.fromiter(places(table.partition, cells), dtype=np.int64)
            kinds = np.unique(met[met >= 0])
            alphas = [[float(table.alpha_of(kind))] for kind in kinds.tolist()]
            yield np.array(alphas).reshape(-1, 1), (met[None, :] == kinds[:, None]).astype(float)


def _at(row: LinearQuery, cells: Cells) -> Floats:
    total = np.zeros(len(cells))
    for term in row.terms:
        product: Any = np.full(len(cells), float(term.coefficient))
        for factor in term.factors:
            product = product * factor.weights.dense[cells[:, factor.axis]]
        total += product
    return total
