"""Chains through given partitions of one attribute's values.

A partition is an array of labels, one per value: values with the same label are one part. The
levels of a chain must nest and be *strict*: every part holds at least two parts of the next level,
and the parts of the last level are single values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from qserver.inference.tables.blocks.chain import Chain, single_values
from qserver.inference.tables.blocks.pattern import Lattice
from qserver.query.partition import ProductPartition

MAX_NESTED = 1 << 16
"""An attribute with more values keeps its regular chain."""
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
        if axis not in regular or size > MAX_NESTED or axis == present.apart:
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
