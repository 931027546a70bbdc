"""What answers disagree about where one table is as fine as all of them.

Every other row, and every cell of another table, is a sum of the cells of that table. So its answer
and those of the cells tell one sum of errors, and nothing is factored: a question may tell every
cell apart, as the sum of a number with thousands of values does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.given.known_sums import KnownSums
from qserver.inference.given.variances import LAPLACE_VARIANCE
from qserver.query.linear import LinearQuery, Term
from qserver.query.partition import ProductPartition
from qserver.records.charge import NANO
from qserver.records.history import Measurement, TableMeasurement

_MOST_SUMS, _MOST_WORK = 200, 5e8
_MOST_CELLS = 16_384
"""Most cells that weigh differently: these take a second."""


@dataclass(frozen=True, eq=False)
class ByFinest:
    """An estimate by the cells of one table alone, and the sums of errors that bear on it.

    Args:
        weights: of the cells, shape (n,).
        answers: of the cells, in records, shape (n,).
        allowance: bound on the error that the lattices add, in records.
    """

    weights: FloatArray
    answers: FloatArray
    allowance: float
    sums: KnownSums

    @property
    def variance(self) -> float:
        """Of the error, given the sums, if all errors were normal."""
        weights, sums = self.sums.weights, self.sums.sums
        if not len(sums):
            return LAPLACE_VARIANCE * float(weights @ weights)
        inner = np.linalg.lstsq(sums @ sums.T, sums @ weights, rcond=None)[0]
        return LAPLACE_VARIANCE * float(weights @ weights - (sums @ weights) @ inner)


def by_finest(
    query: LinearQuery, finest: TableMeasurement, rows: Iterable[Measurement]
) -> ByFinest | None:
    """What is known of a question by a table.

    Args:
        rows: what may bear on the question beside the table, those of least noise first. What is no
            sum of the table's cells is left out, and so is what there is no room for.

    Returns:
        None where the question tells values of a cell apart, or too many cells.
    """
    weights = on_cells(query, finest.partition)
    if weights is None:
        return None
    n = len(weights)
    room = int(min(_MOST_SUMS, (_MOST_WORK / n) ** 0.5))
    told = list(islice(_sums_of_cells(rows, finest.partition), room))
    answers = np.array([index * float(finest.step) for index in finest.indices])
    inside = np.array([cells for cells, _ in told]).reshape(len(told), n)
    values = np.array([row.value_float for _, row in told]) - inside @ answers
    # Cells that weigh alike in everything count as their sum.
    alike, n_alike = np.unique(np.vstack([weights, inside]), axis=1, return_counts=True)
    if len(n_alike) > _MOST_CELLS:
        return None
    cells = alike * (NANO / finest.alpha_nano) * np.sqrt(n_alike)
    sums = np.hstack([-cells[1:], np.diag([row.scale for _, row in told])])
    on_all = np.append(cells[0], np.zeros(len(told)))
    counts = np.append(n_alike, [row.n_summed for _, row in told]).astype(np.float64)
    lattice = float(np.abs(weights).sum()) * float(finest.step)
    lattice += float(np.abs(weights).max()) * sum(row.lattice_allowance for _, row in told)
    return ByFinest(weights, answers, lattice, KnownSums(on_all, sums, values, counts))


def _sums_of_cells(
    rows: Iterable[Measurement], partition: ProductPartition
) -> Iterator[tuple[FloatArray, Measurement]]:
    """The rows that are sums of cells, with the weights of these.

    A row that is a cell is left out: it may be the same noise with more added.
    """
    for row in rows:
        cells = on_cells(row.row, partition)
        if cells is not None and np.count_nonzero(cells) > 1:
            yield cells, row


def on_cells(query: LinearQuery, partition: ProductPartition) -> FloatArray | None:
    """The query's weight of each cell, shape (n,); None where it tells values of one apart."""
    total = np.zeros(partition.shape)
    for term in query.terms:
        found = _of_term(term, partition)
        if found is None:
            return None
        total = total + found
    return np.asarray(total.ravel())


def _of_term(term: Term, partition: ProductPartition) -> FloatArray | None:
    """Broadcastable to the partition's shape."""
    found = np.full((1,) * len(partition.axes), float(term.coefficient))
    left = dict(term.by_axis)
    for i, parts in enumerate(partition.axes):
        weights = left.pop(parts.axis, None)
        if weights is None:
            continue
        dense, first = np.asarray(weights.dense), np.unique(parts.dense, return_index=True)[1]
        of_parts = dense[first]
        if (dense != of_parts[parts.dense]).any():
            return None
        shape = [1] * len(partition.axes)
        shape[i] = parts.n
        found = found * of_parts.reshape(shape)
    return None if left else found
