"""The map from the cells of a measured table to the cells of its block.

A product partition numbers the parts of an axis by first occurrence. A chain numbers them by their
order among its slots, phantoms included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qserver.inference.tables.blocks.chain import Chain, default_chain, single_values
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.query.grid import AxisClasses
from qserver.query.partition import ProductPartition, product_partition

MAX_VALUES = 1 << 18
"""An attribute with more values has no default chain: building it would take seconds."""


class DefaultChains(Mapping[int, Chain]):
    """The default chain of every attribute's single values, each built when first asked for.

    Attributes of more than 2^18 values have none.

    Args:
        sizes: number of values per attribute.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sizes)
        self._built: dict[int, Chain] = {}

    def __getitem__(self, axis: int) -> Chain:
        if axis not in self:
            raise KeyError(axis)
        if axis not in self._built:
            self._built[axis] = default_chain(single_values(axis, self._sizes[axis]))
        return self._built[axis]

    def __iter__(self) -> Iterator[int]:
        return (a for a in range(len(self._sizes)) if a in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, axis: object) -> bool:
        if not isinstance(axis, int) or not 0 <= axis < len(self._sizes):
            return False
        return self._sizes[axis] <= MAX_VALUES


@dataclass(frozen=True, eq=False)
class Placement:
    """A block and the partition of its real cells.

    Args:
        parts: per axis of the block, the chain's part for each part of the partition.
    """

    block: BlockKey
    partition: ProductPartition
    parts: tuple[NDArray[np.intp], ...]

    def cell(self, parts: Sequence[int]) -> tuple[int, ...] | None:
        """The table's index of the cell with these chain parts, one per axis, or None."""
        places = [
            np.flatnonzero(known == part) for known, part in zip(self.parts, parts, strict=True)
        ]
        return tuple(int(found[0]) for found in places) if all(map(len, places)) else None


def placement_of_block(
    sizes: Sequence[int], lattice: Lattice, block: BlockKey, periods: Collection[int] | None = None
) -> Placement:
    """The block's real cells as a partition.

    Args:
        periods: those of the attribute `lattice.apart` that have cells; None for all.

    Raises:
        QueryError: the block has more cells than a table may have.
    """
    labels = {axis: _labels(lattice.chains[axis], level) for axis, level in block}
    if periods is not None and lattice.apart in labels:
        inside = np.isin(np.arange(sizes[lattice.apart]), list(periods))
        labels[lattice.apart] = np.where(inside, labels[lattice.apart], -1)
    partition = product_partition(sizes, labels)
    parts = tuple(_first_labels(a, labels[a.axis]) for a in partition.axes)
    return Placement(block, partition, parts)


def placement_of_partition(lattice: Lattice, partition: ProductPartition) -> Placement | None:
    """The block whose real cells are the partition's cells, or None."""
    block, parts = [], []
    for axis in partition.axes:
        chain = lattice.chains.get(axis.axis)
        is_apart = axis.axis == lattice.apart
        level = None if chain is None else (_single(axis) if is_apart else _level_of(chain, axis))
        if chain is None or level is None:
            return None
        block.append((axis.axis, level))
        parts.append(_first_labels(axis, _labels(chain, level)))
    return Placement(tuple(block), partition, tuple(parts))


def _single(axis: AxisClasses) -> int | None:
    """The level of single values, 1, if every part is a single value; else None."""
    return 1 if axis.n == np.count_nonzero(axis.dense >= 0) else None


def _level_of(chain: Chain, axis: AxisClasses) -> int | None:
    dense = axis.dense
    for level, real in enumerate(chain.is_real):
        if np.count_nonzero(real) != axis.n:
            continue
        labels = _labels(chain, level)
        pairs = dense.astype(np.int64) * len(real) + labels
        # As many pairs as parts on both sides: the parts correspond one to one.
        if len(np.unique(pairs)) == axis.n:
            return level
    return None


def _labels(chain: Chain, level: int) -> NDArray[np.intp]:
    """The chain's part of every value of the attribute, shape (size,)."""
    return np.asarray(chain.part_of(level)[chain.classes.dense])


def _first_labels(axis: AxisClasses, labels: NDArray[np.intp]) -> NDArray[np.intp]:
    """The label of each part of the partition, shape (parts,)."""
    first = np.unique(axis.dense, return_index=True)[1][-axis.n :]  # without -1, in no part
    return np.asarray(labels[first])
