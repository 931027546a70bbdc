"""Partitions of an attribute's values: a set of tables treats the values of a class alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from qserver.query.grid import AxisClasses

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Partition:
    """Classes of an attribute's values as runs: run i ends before `stops[i]` and is of `ids[i]`.

    Partitions compare by identity. An operation that changes nothing returns the same object.

    Args:
        stops: increasing ends of the runs, shape (runs,); the last is the attribute's size.
        ids: class of each run, shape (runs,); classes are numbered 0 .. n - 1 by first occurrence.
        n: number of classes.
    """

    stops: Indices
    ids: Indices
    n: int

    @property
    def size(self) -> int:
        """Number of values of the attribute."""
        return int(self.stops[-1])

    @cached_property
    def first(self) -> Indices:
        """The first value of each class, shape (n,)."""
        starts = np.concatenate([np.zeros(1, dtype=np.intp), self.stops[:-1]])
        out = np.empty(self.n, dtype=np.intp)
        out[self.ids[::-1]] = starts[::-1]
        return out

    @property
    def of_values(self) -> Indices:
        """Class of each value, shape (size,)."""
        return np.repeat(self.ids, np.diff(self.stops, prepend=0))

    def class_of(self, values: Indices) -> Indices:
        """Class of each of `values`."""
        return self.ids[np.searchsorted(self.stops, values, side="right")]

    def restricted_to(self, allowed: Indices) -> Partition:
        """This partition of the values `allowed` (increasing), renumbered 0, 1, ..."""
        _, first, ids = np.unique(self.class_of(allowed), return_index=True, return_inverse=True)
        return _numbered(np.arange(1, len(allowed) + 1), ids, first)


@dataclass(frozen=True, eq=False)
class Meeting:
    """Which classes of two partitions of one attribute share a value.

    Args:
        left, right: the pairs of classes that share a value, sorted by the right one; (pairs,).
    """

    left: Indices
    right: Indices

    @cached_property
    def starts(self) -> Indices:
        """Where the pairs of each right class begin."""
        return np.flatnonzero(np.diff(self.right, prepend=-1))

    @cached_property
    def lefts(self) -> list[Indices]:
        """For each right class, the left classes that share a value with it."""
        return np.split(self.left, self.starts[1:])

    @cached_property
    def runs(self) -> list[list[slice]]:
        """`lefts` as slices of neighbouring classes."""
        return [_runs(classes) for classes in self.lefts]


def _runs(classes: Indices) -> list[slice]:
    """Neighbouring classes as slices."""
    ends = np.flatnonzero(np.diff(classes) > 1) + 1
    return [slice(int(p[0]), int(p[-1]) + 1) for p in np.split(classes, ends)]


@lru_cache(maxsize=1 << 14)
def from_classes(classes: AxisClasses) -> Partition:
    """A query's classes as a partition; equal classes give the same object."""
    stops, ids = np.array(classes.stops, dtype=np.intp), np.array(classes.ids, dtype=np.intp)
    return Partition(stops, ids, classes.n)


@lru_cache(maxsize=1 << 13)
def common(one: Partition, other: Partition) -> Partition:
    """The coarsest partition that refines both: `one` or `other` itself if that one does."""
    if _refines(one, other):
        return one
    stops = _merged(one.stops, other.stops)
    codes = _ids_at(one, stops) * other.n + _ids_at(other, stops)
    pairs, first, ids = np.unique(codes, return_index=True, return_inverse=True)
    if len(pairs) == other.n:
        return other
    return _numbered(stops, ids, first)


@lru_cache(maxsize=1 << 13)
def meeting(left: Partition, right: Partition) -> Meeting:
    """The pairs of classes of `left` and `right` that share a value."""
    if _refines(left, right):
        rights = parents(right, left)
        order = np.argsort(rights, kind="stable")
        return Meeting(order, rights[order])
    stops = _merged(left.stops, right.stops)
    pairs = np.unique(_ids_at(right, stops) * left.n + _ids_at(left, stops))
    return Meeting(pairs % left.n, pairs // left.n)


@lru_cache(maxsize=1 << 13)
def parents(coarse: Partition, fine: Partition) -> Indices:
    """For each class of `fine`, which refines `coarse`, the class of `coarse` that holds it."""
    return coarse.class_of(fine.first)


def _refines(fine: Partition, coarse: Partition) -> bool:
    """Whether every class of `fine` lies within one class of `coarse`; needs no sort."""
    if fine is coarse or coarse.n == 1:
        return True
    ends = np.searchsorted(fine.stops, coarse.stops)
    if not np.array_equal(fine.stops[ends], coarse.stops):
        return False
    return np.array_equal(parents(coarse, fine)[fine.ids], _ids_at(coarse, fine.stops))


def _merged(one: Indices, other: Indices) -> Indices:
    """The union of two increasing arrays, increasing."""
    stops = np.sort(np.concatenate([one, other]), kind="stable")
    return stops[np.diff(stops, prepend=-1) > 0]


def _ids_at(partition: Partition, stops: Indices) -> Indices:
    return partition.ids[np.searchsorted(partition.stops, stops)]


def _numbered(stops: Indices, ids: Indices, first: Indices) -> Partition:
    """Classes renumbered by first occurrence, so that those of a range tend to be neighbours."""
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return Partition(stops.astype(np.intp), rank[ids], len(order))
