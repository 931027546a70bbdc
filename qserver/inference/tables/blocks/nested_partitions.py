"""Nested partitions of one attribute's values, with regular branching.

The parts of the last level are *slots*. A slot holds one class of values, or nothing: then it is a
phantom, whose count is publicly zero. Phantoms pad unequal parts to equal size. A vector may take
any value on a phantom; the mean of its real siblings has the least energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil, log2

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from qserver.errors import DomainError
from qserver.inference.arrays import FloatArray
from qserver.query.class_grid import AxisClasses
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
    def real_below(self) -> tuple[NDArray[np.int64], ...]:
        """Per level but the last, how many real parts each part has below, at least 1."""
        shapes = zip(self.n_parts, self.is_real[1:], strict=False)
        counts = (real.reshape(k, -1).sum(axis=1, dtype=np.int64) for k, real in shapes)
        return tuple(np.asarray(np.maximum(1, one)) for one in counts)

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
        if not self._stops.issuperset(weights.stops):
            return False
        if self.classes.n == len(self.classes.stops):
            return True
        runs = values_at(weights, np.array(self.classes.stops, dtype=np.int64))
        ids = np.array(self.classes.ids)
        by_class = np.zeros(self.classes.n)
        by_class[ids] = runs
        return bool((by_class[ids] == runs).all())

    @cached_property
    def _stops(self) -> frozenset[int]:
        return frozenset(self.classes.stops)

    def components(self, weights: Weights) -> tuple[FloatArray, ...]:
        """The component of each level: shape (parts,) per level, 0 on phantoms.

        `weights` must be resolved. The components add up to the vector on every real slot. From
        level 1 on their mean over the slots of a coarser part is 0.
        """
        levels = [self.on_slots(weights).astype(np.float64)]
        for counts, real in zip(self.real_below[::-1], self.is_real[:0:-1], strict=True):
            children = (levels[-1] * real).reshape(len(counts), -1)
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
        return np.asarray(self._unit_errors * float(max(map(abs, weights.values))))

    @cached_property
    def _unit_errors(self) -> FloatArray:
        errors = [0.0]
        for coarse, fine in reversed(list(pairwise(self.n_parts))):
            k = fine // coarse
            errors.append(errors[-1] + min(k, _PAIRWISE + log2(k)) + 1.0)
        means = np.array(errors[::-1])
        means[1:] += means[:-1] + 2.0
        return np.asarray(means * _ULP)

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
