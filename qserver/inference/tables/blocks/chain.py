"""Nested partitions of one attribute's values, with regular branching.

The parts of the last level are *slots*. A slot holds one class of values, or nothing: then it is a
phantom, whose count is publicly zero. Phantoms pad unequal parts to equal size. A vector may take
any value on a phantom; the mean of its real siblings has the least energy.

Chains through given partitions of one attribute's values.

A partition is an array of labels, one per value: values with the same label are one part. The
levels of a chain must nest and be *strict*: every part holds at least two parts of the next level,
and the parts of the last level are single values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, log2, prod

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from qserver.errors import DomainError
from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.pattern import Lattice
from qserver.query.grid import AxisClasses
from qserver.query.partition import ProductPartition
from qserver.query.weights import Weights

_FLAT = 12
_ULP = 2.0**-52
_PAIRWISE = 24.0


@dataclass(frozen=True)
class Chain:
    """Nested partitions of one attribute.

    Args:
        classes: the finest classes of the attribute's values.
        slots: the class of each slot, -1 for a phantom; every class has one slot.
        n_parts: parts per level, from 1 to the number of slots, each a multiple of the one before.

    Raises:
        DomainError: a class does not have exactly one slot, or the levels do not nest.
    """

    classes: AxisClasses
    slots: tuple[int, ...]
    n_parts: tuple[int, ...]

    def __post_init__(self) -> None:
        placed = sorted(s for s in self.slots if s >= 0)
        if placed != list(range(self.classes.n)):
            raise DomainError("slots", "hold every class once")
        rising = all(a < b and b % a == 0 for a, b in pairwise(self.n_parts))
        if self.n_parts[:1] != (1,) or self.n_parts[-1] != len(self.slots) or not rising:
            raise DomainError("n_parts", "run from 1 to the number of slots by whole factors")

    @property
    def axis(self) -> int:
        """The attribute's position in the domain."""
        return self.classes.axis

    @property
    def n_levels(self) -> int:
        """Number of levels, the total included."""
        return len(self.n_parts)

    @cached_property
    def is_real(self) -> tuple[NDArray[np.bool_], ...]:
        """Per level, which parts hold a class, shape (parts,)."""
        finest = np.array(self.slots) >= 0
        return tuple(np.asarray(finest.reshape(k, -1).any(axis=1)) for k in self.n_parts)

    @cached_property
    def n_real(self) -> tuple[int, ...]:
        """Per level, how many parts hold a class."""
        return tuple(int(real.sum()) for real in self.is_real)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        places = np.empty(self.classes.n, dtype=np.intp)
        for slot, c in enumerate(self.slots):
            if c >= 0:
                places[c] = slot
        return places

    def resolves(self, weights: Weights) -> bool:
        """Whether `weights` are constant on every class."""
        runs = values_at(weights, np.array(self.classes.stops, dtype=np.int64))
        cuts = np.array(weights.stops, dtype=np.int64)
        if not np.isin(cuts, np.array(self.classes.stops)).all():
            return False
        ids = np.array(self.classes.ids)
        by_class = np.zeros(self.classes.n)
        by_class[ids] = runs
        return bool((by_class[ids] == runs).all())

    def components(self, weights: Weights) -> tuple[FloatArray, ...]:
        """The component of each level: shape (parts,) per level, 0 on phantoms.

        `weights` must be resolved. The components add up to the vector on every real slot. From
        level 1 on their mean over the slots of a coarser part is 0.
        """
        levels = [self.on_slots(weights).astype(np.float64)]
        for (coarse, _), real in zip(
            reversed(list(pairwise(self.n_parts))), self.is_real[:0:-1], strict=True
        ):
            children = (levels[-1] * real).reshape(coarse, -1)
            counts = np.maximum(1, real.reshape(coarse, -1).sum(axis=1))
            levels.append(children.sum(axis=1) / counts)
        levels.reverse()
        found = [levels[0]]
        for (coarse, fine), above, here, real in zip(
            pairwise(self.n_parts), levels, levels[1:], self.is_real[1:], strict=False
        ):
            found.append((here - np.repeat(above, fine // coarse)) * real)
        return tuple(found)

    def on_slots(self, weights: Weights) -> NDArray[np.int64]:
        """Resolved `weights` by slot, shape (slots,); 0 on phantoms."""
        value = np.zeros(len(self.slots), dtype=np.int64)
        value[self._places] = self.classes.on_classes(weights)
        return value

    def component_errors(self, weights: Weights) -> FloatArray:
        """Bound on the rounding in `components`, per level, shape (levels,).

        The error of a mean of k numbers is at most one rounding of the largest per level of its
        pairwise sum, and one more. A component is a difference of two means.
        """
        largest = float(max(map(abs, weights.values)))
        errors = [0.0]
        for coarse, fine in reversed(list(pairwise(self.n_parts))):
            k = fine // coarse
            errors.append(errors[-1] + min(k, _PAIRWISE + log2(k)) + 1.0)
        means = np.array(errors[::-1])
        means[1:] += means[:-1] + 2.0
        return np.asarray(means * _ULP * largest)

    @cached_property
    def is_strict(self) -> bool:
        """Whether every part but the finest has two real parts below, so no set is a part twice."""
        return all(
            bool((fine.reshape(len(coarse), -1).sum(axis=1)[coarse] >= 2).all())
            for coarse, fine in pairwise(self.is_real)
        )

    def part_of(self, level: int) -> NDArray[np.intp]:
        """The part of `level` that holds each class, shape (classes,)."""
        return self._places // (len(self.slots) // self.n_parts[level])

    def level_of(self, weights: Weights) -> int | None:
        """The coarsest level that has a part whose indicator these resolved weights are."""
        inside = self.classes.on_classes(weights)
        if not weights.is_indicator:
            return None
        first = int(np.argmax(inside))
        for level in range(self.n_levels):
            parts = self.part_of(level)
            if bool(((parts == parts[first]) == (inside == 1)).all()):
                return level
        return None


def single_values(axis: int, size: int) -> AxisClasses:
    """One class per value of the attribute."""
    return AxisClasses(axis, tuple(range(1, size + 1)), tuple(range(size)), size)


def regular_chain(classes: AxisClasses, n_parts: Sequence[int]) -> Chain:
    """The chain with these levels over the classes in order, phantoms spread evenly.

    Args:
        n_parts: parts per level, the last at least the number of classes.
    """
    slots = [-1] * n_parts[-1]
    for c in range(classes.n):
        slots[c * n_parts[-1] // classes.n] = c
    return Chain(classes, tuple(slots), tuple(n_parts))


def default_chain(classes: AxisClasses) -> Chain:
    """A chain of about equal factors: one step up to 12 classes, two up to 200, then three."""
    n = classes.n
    if n == 1:
        return regular_chain(classes, (1,))
    if n <= _FLAT:
        return regular_chain(classes, (1, n))
    steps = 2 if n <= 200 else 3
    factor = ceil(round(n ** (1 / steps), 9))
    levels = [1]
    for _ in range(steps - 1):
        levels.append(levels[-1] * factor)
    return regular_chain(classes, (*levels, levels[-1] * ceil(n / levels[-1])))


def values_at(weights: Weights, edges: npt.NDArray[np.int64]) -> FloatArray:
    """Value of `weights` just below each edge, shape of `edges`."""
    runs = np.searchsorted(np.array(weights.stops), edges, side="left")
    return np.array(weights.values, dtype=np.float64)[runs]


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
