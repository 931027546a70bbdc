"""Chains through given partitions, and the map from the cells of a measured table to its block.

A product partition numbers the parts of an axis by first occurrence. A chain numbers them by their
order among its slots, phantoms included.

Chains through given partitions of one attribute's values.

A partition is an array of labels, one per value: values with the same label are one part. The
levels of a chain must nest and be *strict*: every part holds at least two parts of the next level,
and the parts of the last level are single values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from qserver.inference.limits import MOST_IN_CHAIN, MOST_NESTED
from qserver.inference.tables.blocks.nested_partitions import Chain, default_chain, single_values
from qserver.inference.tables.blocks.pattern import BlockKey, Lattice
from qserver.query.class_grid import AxisClasses, ProductPartition, product_partition


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
        return self._sizes[axis] <= MOST_IN_CHAIN


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


MAX_PADDING = 6
"""Most slots per value, since uneven parts are padded to equal size."""

Labels = NDArray[np.intp]


class OverlaidChains(Mapping[int, Chain]):
    """A mapping of chains with the chains of some attributes replaced.

    Args:
        below: the chains of the other attributes; used only when asked for.
        above: the chains that replace them.
    """

    def __init__(self, below: Mapping[int, Chain], above: Mapping[int, Chain]) -> None:
        self.below, self.above = below, dict(above)

    def __getitem__(self, axis: int) -> Chain:
        return self.above[axis] if axis in self.above else self.below[axis]

    def __iter__(self) -> Iterator[int]:
        return iter(self.below)

    def __len__(self) -> int:
        return len(self.below)

    def __contains__(self, axis: object) -> bool:
        return axis in self.below


def labels_of(values: NDArray[np.integer]) -> Labels:
    """The same partition with parts numbered by first occurrence."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse.ravel()])


def joined(one: NDArray[np.integer], other: NDArray[np.integer]) -> Labels:
    """The coarsest partition that is finer than both."""
    return labels_of(one.astype(np.int64) * (int(other.max()) + 1) + other)


def n_parts(labels: Labels) -> int:
    """Number of parts; labels are numbered from 0."""
    return int(labels.max()) + 1


def n_below(coarse: Labels, fine: Labels) -> NDArray[np.intp]:
    """For nesting partitions, the number of finer parts in each coarser part, shape (parts,)."""
    return np.bincount(coarse[firsts(fine)], minlength=n_parts(coarse))


def firsts(labels: Labels) -> NDArray[np.intp]:
    """The first value of each part, shape (parts,)."""
    return np.unique(labels, return_index=True)[1]


def nests(coarse: Labels, fine: Labels) -> bool:
    """Whether every coarser part is a union of at least two finer parts."""
    within = bool((coarse == coarse[firsts(fine)][fine]).all())
    return within and bool((n_below(coarse, fine) >= 2).all())


def nested_levels(size: int, partitions: Iterable[Labels]) -> tuple[Labels, ...]:
    """Levels from coarse to fine: the total, the partitions, the single values.

    A partition that does not nest with earlier ones is left out.
    """
    levels = [np.zeros(size, dtype=np.intp), np.arange(size, dtype=np.intp)]
    for labels in partitions:
        place = sum(n_parts(level) <= n_parts(labels) for level in levels)
        # It is a level already, or it fits between two levels.
        if (
            place < len(levels)
            and nests(levels[place - 1], labels)
            and nests(labels, levels[place])
        ):
            levels.insert(place, labels)
    return tuple(levels)


def chain_through(axis: int, levels: Sequence[Labels]) -> Chain | None:
    """The chain with these levels, from the total to single values.

    Parts are in the order of their first values. Unequal parts are padded by phantoms, spread
    evenly. None if that takes too many slots.
    """
    size = len(levels[0])
    factors = [int(n_below(a, b).max()) for a, b in pairwise(levels)]
    if prod(factors) > MAX_PADDING * size:
        return None
    slots = np.zeros(size, dtype=np.intp)
    for (coarse, fine), factor in zip(pairwise(levels), factors, strict=True):
        child, counts = _rank_within(coarse, fine), n_below(coarse, fine)
        slots = slots * factor + child * factor // counts[coarse]
    placed = np.full(prod(factors), -1)
    placed[slots] = np.arange(size)
    sizes = tuple(prod(factors[:i]) for i in range(len(levels)))
    return Chain(single_values(axis, size), tuple(placed.tolist()), sizes)


def lattice_through(
    present: Lattice,
    regular: Mapping[int, Chain],
    measured: Sequence[ProductPartition],
    new: Sequence[ProductPartition],
) -> Lattice:
    """A lattice with these tables as blocks, as far as they nest; `present` if nothing changes.

    If a table's partition of an attribute is not a level of the attribute's chain, the chain goes
    through the measured partitions of that attribute and single values, and through no others.

    Args:
        regular: chains of attributes without irregular measurements.
        measured: partitions of the tables so far, the latest first.
    """
    above = dict(present.chains.above) if isinstance(present.chains, OverlaidChains) else {}
    changed: dict[int, Chain] = {}
    for axis, size in {a.axis: a.stops[-1] for p in new for a in p.axes}.items():
        if axis not in regular or size > MOST_NESTED or axis == present.apart:
            continue
        levels = nested_levels(size, partitions_of(axis, [*new, *measured]))
        chain = None if has_levels(present.chains[axis], levels) else chain_through(axis, levels)
        if chain is not None and chain != present.chains[axis]:
            changed[axis] = chain
    if not changed:
        return present
    return Lattice(OverlaidChains(regular, {**above, **changed}), present.apart)


def partitions_of(axis: int, partitions: Iterable[ProductPartition]) -> Iterator[Labels]:
    """The distinct labels of one attribute's values in these partitions, in order."""
    seen = set[bytes]()
    for classes in (a for p in partitions for a in p.axes if a.axis == axis):
        labels = labels_of(classes.dense)
        if labels.tobytes() not in seen:
            seen.add(labels.tobytes())
            yield labels


def has_levels(chain: Chain, levels: Iterable[Labels]) -> bool:
    """Whether every one of these partitions is a level of the chain."""
    dense = chain.classes.dense
    have = {labels_of(chain.part_of(i)[dense]).tobytes() for i in range(chain.n_levels)}
    return all(labels.tobytes() in have for labels in levels)


def _rank_within(coarse: Labels, fine: Labels) -> NDArray[np.intp]:
    """Per value, the number of finer parts before its part, within the same coarse part."""
    parent = coarse[firsts(fine)]
    order = np.argsort(parent, kind="stable")
    starts = np.searchsorted(parent[order], np.arange(n_parts(coarse)))
    rank = np.empty(len(parent), dtype=np.intp)
    rank[order] = np.arange(len(parent)) - starts[parent[order]]
    return np.asarray(rank[fine])
