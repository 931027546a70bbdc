"""Weights of a query on the cells of a block; equal weights are stored once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from qserver.errors import InputError
from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice, Pattern, PatternTerm

MAX_CELLS = 1 << 22

Groups = NDArray[np.intp]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GroupedAxis:
    """The parts of an axis at a level, grouped by equal components in all terms.

    Args:
        values: per term, the components by level, shape (levels, groups).
        groups: the group of each part, -1 for a phantom.
        repeats: real parts per group.
    """

    values: list[FloatArray]
    groups: Groups
    repeats: Counts


@dataclass(frozen=True, eq=False)
class CellWeights:
    """Weights of a query on a block's cells, one value per group of equal cells.

    Args:
        values: weight per group of cells, one axis per axis of the block.
        groups: per axis of the block, the group of each part, -1 for a phantom.
        repeats: per axis, the number of real parts in each group.
        left_out: a cell, as a part per axis, that has weight 0 despite its group.
    """

    block: BlockKey
    values: FloatArray
    groups: tuple[Groups, ...]
    repeats: tuple[Counts, ...]
    left_out: tuple[int, ...] | None = None

    @cached_property
    def counts(self) -> Counts:
        """Real cells per group of cells, of the shape of `values`."""
        total = np.ones((), dtype=np.int64)
        for repeats in self.repeats:
            total = np.multiply.outer(total, repeats)
        if self.left_out is not None:
            total[self.group_of(self.left_out)] -= 1
        return np.asarray(total)

    def group_of(self, cell: Iterable[int]) -> tuple[int, ...]:
        """The index in `values` of a cell, given as a part per axis."""
        return tuple(int(g[part]) for g, part in zip(self.groups, cell, strict=True))

    def at(self, cell: Iterable[int]) -> float:
        """The weight of one cell."""
        return float(self.values[self.group_of(cell)])

    def without(self, cell: tuple[int, ...], *, factor: float) -> CellWeights:
        """`factor` times these weights, with weight 0 for one cell."""
        return CellWeights(self.block, self.values * factor, self.groups, self.repeats, cell)

    def scaled(self, factor: float) -> CellWeights:
        """`factor` times these weights."""
        return CellWeights(
            self.block, self.values * factor, self.groups, self.repeats, self.left_out
        )

    @property
    def size(self) -> float:
        """Sum of the absolute weights over the real cells."""
        return float((np.abs(self.values) * self.counts).sum())

    def spread(self, values: FloatArray, parts: Iterable[Groups]) -> FloatArray:
        """One value per group, expanded to the cells of these parts per axis."""
        chosen = [g[p] for g, p in zip(self.groups, parts, strict=True)]
        return np.asarray(values[np.ix_(*chosen)] if chosen else values)

    @property
    def dense(self) -> FloatArray:
        """The weight of every cell, phantoms 0, one axis per axis of the block.

        Raises:
            InputError: the block has more than 2^22 cells.
        """
        if prod(len(g) for g in self.groups) > MAX_CELLS:
            raise InputError("block", "have at most 2^22 cells to be written down")
        total = self.values
        for i, group in enumerate(self.groups):
            real = (group >= 0).reshape([-1 if k == i else 1 for k in range(total.ndim)])
            total = total.take(np.maximum(group, 0), axis=i) * real
        if self.left_out is not None:
            # The total has no axes, and its only cell is a number.
            total = np.array(total)
            total[self.left_out] = 0.0
        return np.asarray(total)


def grouped_axis(lattice: Lattice, axis: int, level: int, pattern: Pattern) -> GroupedAxis:
    """The groups of an axis's parts under a pattern, kept with the pattern."""
    found = pattern.groups.get((axis, level))
    if not isinstance(found, GroupedAxis):
        found = _grouped(lattice, axis, level, pattern.terms)
        pattern.groups[axis, level] = found
    return found


def _grouped(lattice: Lattice, axis: int, level: int, terms: Iterable[PatternTerm]) -> GroupedAxis:
    chain = lattice.chains[axis]
    k = chain.n_parts[level]
    columns = []
    for term in terms:
        if axis == lattice.apart:
            # Both levels have the same information; their sum is 0 exactly where the query is.
            columns.append(np.broadcast_to(sum(term.axes.get(axis, (1.0,))), (k,))[:, None])
            continue
        mine = np.zeros((k, level + 1))
        mine[:, 0] = 1.0
        if axis in term.axes:
            for i, values in enumerate(term.axes[axis][: level + 1]):
                mine[:, i] = np.repeat(values, k // len(values))
        columns.append(mine)
    real = chain.is_real[level]
    stacked = np.hstack(columns)[real]
    unique, of_real, repeats = np.unique(stacked, axis=0, return_inverse=True, return_counts=True)
    groups = np.full(k, -1, dtype=np.intp)
    groups[real] = of_real.ravel()
    by_term = [np.ascontiguousarray(v.T) for v in np.split(unique, len(columns), axis=1)]
    return GroupedAxis(by_term, groups, repeats.astype(np.int64))
