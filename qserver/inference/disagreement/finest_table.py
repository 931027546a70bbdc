"""Disagreements of answers if one table is as fine as all others.

Every other row, and every cell of another table, is a sum of the cells of that table. So its answer
and those of the cells give one known sum of errors, without factoring. A question may separate
every cell, as the sum of a number with thousands of values does. A table with many cells gives one
sum per question and per row: of its cells, by the mean weights of the finest cells in each. If its
cells have equal sizes, no other sum bears on the question in least squares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.vectors import IntArray
from qserver.inference.disagreement.known_sums import KnownSums, Together
from qserver.inference.disagreement.normal_law_given_sums import LAPLACE_VARIANCE
from qserver.query.class_grid import ProductPartition
from qserver.query.linear_query import LinearQuery, Term
from qserver.records.charge import NANO
from qserver.records.history import Measurement, TableMeasurement

_MOST_SUMS, _MOST_WORK = 200, 5e8
_MOST_CELLS = 16_384
"""Most cells that weigh differently: these take a second."""


@dataclass(frozen=True, eq=False)
class LargeTable:
    """Another table, whose cells are merged until they are sums of the finest table's cells.

    Args:
        places: the merged cell that each of the finest cells lies in, shape (n,).
        values: the answers of the merged cells, in records, shape (l,).
        n_merged: how many cells each is the sum of, shape (l,).
        scale, step: of the noise of a cell, in records.
    """

    places: IntArray
    values: FloatArray
    n_merged: IntArray
    scale: float
    step: float

    def weights(self, of_finest: FloatArray) -> FloatArray:
        """The mean weight of the finest cells in each merged one, shape (m, l) of (m, n)."""
        sizes = np.bincount(self.places, minlength=len(self.values))
        sums = [np.bincount(self.places, one, minlength=len(self.values)) for one in of_finest]
        return np.asarray(np.array(sums) / sizes)


@dataclass(frozen=True, eq=False)
class Beside:
    """Measurements besides the finest table that may bear on questions.

    Args:
        rows: least noise first. Rows that are not sums of the table's cells, or do not fit, are
            left out.
        large: tables that give single sums.
    """

    rows: Sequence[Measurement]
    large: Sequence[LargeTable] = ()


def by_finest(
    queries: Sequence[LinearQuery], finest: TableMeasurement, beside: Beside
) -> tuple[Together, FloatArray] | None:
    """Estimates of questions by the cells of one table, and the known sums that bear on them.

    Returns:
        Also the variances of their errors, given the sums, if all errors were normal, shape (m,).
        None if a question separates values of a cell, or all questions too many cells.
    """
    found = [on_cells(query, finest.partition) for query in queries]
    told = [one for one in found if one is not None]
    if len(told) < len(found):
        return None
    weights, n = np.array(told), finest.partition.n_cells
    answers = np.array([index * float(finest.step) for index in finest.indices])
    room, n_large = int(min(_MOST_SUMS, (_MOST_WORK / n) ** 0.5)), len(beside.large)
    of_rows = (room - n_large * len(weights)) // (1 + n_large)
    parts = [_of_rows(beside.rows, finest.partition, max(0, of_rows))]
    wanted = np.vstack([weights, parts[0].inside])
    parts += [_of_table(table, wanted) for table in beside.large]
    inside = np.concatenate([part.inside for part in parts])
    # Cells that weigh alike in everything count as their sum.
    alike, n_alike = np.unique(np.vstack([weights, inside]), axis=1, return_counts=True)
    if len(n_alike) > _MOST_CELLS:
        return None
    scale, m = NANO / finest.alpha_nano, len(weights)
    cells = alike * scale * np.sqrt(n_alike)
    beyond = sum(part.own.shape[1] for part in parts)
    on_all = np.hstack([cells[:m], np.zeros((m, beyond))])
    known = KnownSums(
        on_all if m > 1 else on_all[0],
        np.hstack([-cells[m:], _diagonal([part.own for part in parts])]),
        np.concatenate([part.values for part in parts]) - inside @ answers,
        np.concatenate([n_alike, *(part.counts for part in parts)]).astype(np.float64),
    )
    steps_of_all = np.concatenate(
        [np.sqrt(n_alike) * float(finest.step) / scale, *(part.steps for part in parts)]
    )
    products = np.abs(weights * answers).sum(axis=1)
    left = _left(known)
    allowances = np.abs(left) @ steps_of_all + 4.0 * n * np.finfo(float).eps * products
    variances = LAPLACE_VARIANCE * np.square(left).sum(axis=1)
    return Together(weights @ answers, allowances, known), np.asarray(variances)


def _left(known: KnownSums) -> FloatArray:
    """Errors' weights left by the best use of the sums, shape (m, all)."""
    weights, sums = np.atleast_2d(known.weights), known.sums
    if not len(sums):
        return weights
    gains = np.linalg.lstsq(sums @ sums.T, sums @ weights.T, rcond=None)[0]
    return np.asarray(weights - gains.T @ sums)


@dataclass(frozen=True, eq=False)
class _Part:
    """Answers that are sums of cells.

    Args:
        inside: weights of the finest cells, shape (k, n).
        values: the answers, in records, shape (k,).
        own: weights of the answers' own errors, shape (k, l).
        counts: number of Laplace variables in each own error, shape (l,).
        steps: of its lattice, over its scale, shape (l,).
    """

    inside: FloatArray
    values: FloatArray
    own: FloatArray
    counts: FloatArray
    steps: FloatArray


def _of_rows(rows: Sequence[Measurement], partition: ProductPartition, room: int) -> _Part:
    told = list(islice(_sums_of_cells(rows, partition), room))
    scales = np.array([row.scale for _, row in told])
    lattices = np.array([row.lattice_allowance for _, row in told])
    return _Part(
        np.array([cells for cells, _ in told]).reshape(len(told), partition.n_cells),
        np.array([row.value_float for _, row in told]),
        np.diag(scales),
        np.array([float(row.n_summed) for _, row in told]),
        # A public row has no lattice.
        np.divide(lattices, scales, out=np.zeros(len(told)), where=scales > 0.0),
    )


def _of_table(table: LargeTable, weights: FloatArray) -> _Part:
    """One answer per question and row: the table's own, by mean weights."""
    own = table.weights(weights)
    kinds, of_kind = np.unique(np.vstack([own, table.n_merged]), axis=1, return_inverse=True)
    n_cells = np.bincount(of_kind.ravel(), table.n_merged)
    root = np.sqrt(n_cells)
    return _Part(
        own[:, table.places],
        own @ table.values,
        kinds[:-1] * table.scale * root,
        n_cells.astype(np.float64),
        root * table.step / table.scale,
    )


def _diagonal(blocks: Sequence[FloatArray]) -> FloatArray:
    """Blocks along a diagonal; a block may have no rows or columns."""
    shape = tuple(sum(block.shape[axis] for block in blocks) for axis in (0, 1))
    found, row, column = np.zeros(shape), 0, 0
    for block in blocks:
        found[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return found


def _sums_of_cells(
    rows: Iterable[Measurement], partition: ProductPartition
) -> Iterator[tuple[FloatArray, Measurement]]:
    """The rows that are sums of cells, with the weights of these.

    A row that is a cell is left out: it may repeat the cell's noise.
    """
    for row in rows:
        cells = on_cells(row.row, partition)
        if cells is not None and np.count_nonzero(cells) > 1:
            yield cells, row


def on_cells(query: LinearQuery, partition: ProductPartition) -> FloatArray | None:
    """The query's weight on each cell, shape (n,); None if it separates values of one."""
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
