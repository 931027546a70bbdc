"""The errors of several answers as sums over shared independent noises.

Every cell of every measured table, and every measured row, has independent noise. There is one
exception: a row, and the cell of a table that is the same row, may continue each other's noise.
Answers that use both are recognised (`twins`), and no joint bound includes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qserver.errors import CapacityError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.joint import JointErrors
from qserver.inference.tables.blocks.noisy_blocks import Blocks, CellWeights
from qserver.inference.tables.blocks.own_row import FLOAT_ROOM, BlocksAndRow
from qserver.inference.tables.blocks.pattern import BlockKey, Pattern
from qserver.records.history import Estimator, Measurement

MAX_ENTRIES = 1 << 17
"""Most answers times noises in one joint problem."""


@dataclass(frozen=True, eq=False)
class SharedError:
    """The error of one answer, as weights on independent noises.

    Args:
        cells: weights on cells of blocks.
        own_cell: block, part per axis, and weight of a cell that is the query itself, in addition
            to `cells`; None without one.
        rows: pairs of a measured row's id and its weight.
        allowance: bound on the error that lattice and floats add, in records.
    """

    cells: tuple[CellWeights, ...] = ()
    own_cell: tuple[BlockKey, tuple[int, ...], float] | None = None
    rows: tuple[tuple[int, float], ...] = ()
    allowance: float = 0.0

    @property
    def blocks(self) -> set[BlockKey]:
        """The blocks with weights in this error."""
        own = [] if self.own_cell is None else [self.own_cell[0]]
        return {w.block for w in self.cells} | set(own)

    def weights_on(self, block: BlockKey, shape: Sequence[int]) -> FloatArray:
        """The weight of every cell of a block, row-major, phantoms 0."""
        total = np.zeros(tuple(shape))
        for found in self.cells:
            if found.block == block:
                total += found.dense
        if self.own_cell is not None and self.own_cell[0] == block:
            total[self.own_cell[1]] += self.own_cell[2]
        return total.ravel()


def error_beside(
    pattern: Pattern, beside: BlocksAndRow, own: Measurement | None, *, confidence: float
) -> SharedError | None:
    """The error of the shortest interval: by blocks, by the query's measurement, or by both.

    It depends on public scales alone, so asking again finds the same weights. None if neither gives
    the query.
    """
    weight = row_weight(beside, confidence)
    if weight is None:
        return None
    known, error = beside.known, SharedError()
    if weight < 1.0 and beside.rest is not None:
        cells = tuple(w.scaled(1.0 - weight) for w in beside.rest.weights)
        error = replace(error, cells=cells, allowance=(1.0 - weight) * known.block_allowance)
    if weight == 0.0:
        return error
    error = replace(error, allowance=error.allowance + weight * known.row_allowance)
    if beside.own_cell:
        block, parts = pattern.cell_of or (), pattern.cell_parts
        return replace(error, own_cell=(block, tuple(parts[a] for a, _ in block), weight))
    return replace(error, rows=() if own is None else ((own.id, weight),))


def row_weight(beside: BlocksAndRow, confidence: float) -> float | None:
    """Weight of the query's measurement in the shortest interval; None if nothing is known."""
    known = beside.known
    if known.row_alpha == 0.0:
        return None if known.block_scales is None else 0.0
    return 1.0 if known.block_scales is None else known.shortest(confidence).row_weight


def error_of_rows(estimator: Estimator, rows: Mapping[int, Measurement]) -> SharedError:
    """The error of given weights on measured rows."""
    lattice = sum(abs(w) * rows[i].lattice_allowance for i, w in estimator.weights)
    allowance = FLOAT_ROOM * (lattice + estimator.float_error)
    return SharedError(rows=estimator.weights, allowance=allowance)


def joint_errors(
    errors: Sequence[SharedError],
    half_widths: FloatArray,
    *,
    blocks: Blocks,
    row_scales: Mapping[int, float],
) -> JointErrors:
    """The joint problem of several errors.

    Args:
        half_widths: half-widths in records, shape (n,); each is above the error's allowance.
        blocks: the blocks, with their alphas.
        row_scales: b per measured row, in records.

    Raises:
        CapacityError: there are too many errors times noises.
    """
    used = sorted(set().union(*(e.blocks for e in errors)))
    ids = sorted({i for e in errors for i, _ in e.rows})
    n_noises = sum(blocks.lattice.n_cells(b) for b in used) + len(ids)
    if n_noises * len(errors) > MAX_ENTRIES:
        raise CapacityError("The workload has too many answers on too many noises.")
    parts, scales = [np.zeros((len(errors), 0))], [np.zeros(0)]
    for block in used:
        shape = [blocks.lattice.chains[a].n_parts[level] for a, level in block]
        found = np.stack([e.weights_on(block, shape) for e in errors])
        parts.append(found)
        scales.append(np.full(found.shape[1], 1.0 / blocks.alphas[block]))
    parts.append(_on_rows(errors, ids))
    scales.append(np.array([row_scales[i] for i in ids], dtype=np.float64))
    room = half_widths - np.array([e.allowance for e in errors])
    return JointErrors(np.hstack(parts), np.concatenate(scales), room)


def _on_rows(errors: Sequence[SharedError], ids: Sequence[int]) -> FloatArray:
    place = {number: k for k, number in enumerate(ids)}
    found = np.zeros((len(errors), len(ids)))
    for i, error in enumerate(errors):
        for number, weight in error.rows:
            found[i, place[number]] += weight
    return found
