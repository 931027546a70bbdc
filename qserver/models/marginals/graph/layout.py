"""Layout: the places of the tables of many scopes in one flat vector.

A scope is a sorted tuple of attributes; its table has one axis per attribute, row-major. Tables of
equal shapes are neighbours, so that they can be processed as one array.

The smaller scopes inside scopes are their parts and intersections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, groupby, pairwise
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from qserver.errors import CapacityError, InputError

FloatArray: TypeAlias = NDArray[np.float64]
IndexArray: TypeAlias = NDArray[np.intp]
Scope: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class TableRun:
    """Tables `start` to `stop` of a layout, of one shape; their cells begin at `offset`."""

    start: int
    stop: int
    shape: tuple[int, ...]
    offset: int

    @property
    def n(self) -> int:
        """Number of tables."""
        return self.stop - self.start

    @property
    def cells(self) -> slice:
        """The places of their cells."""
        return slice(self.offset, self.offset + self.n * prod(self.shape))


@dataclass(frozen=True)
class Layout:
    """Tables one after another in a flat vector.

    Args:
        sizes: number of values per attribute of the domain.
        scopes: attributes of each table, rising; `layout_of` puts equal shapes side by side.

    Raises:
        InputError: a scope is not a rising tuple of attributes of the domain.
    """

    sizes: tuple[int, ...]
    scopes: tuple[Scope, ...]

    def __post_init__(self) -> None:
        for scope in self.scopes:
            check_scope(scope, self.sizes)

    def shape(self, i: int) -> tuple[int, ...]:
        """Shape of table i."""
        return tuple(self.sizes[a] for a in self.scopes[i])

    @cached_property
    def counts(self) -> IndexArray:
        """Number of cells of each table."""
        return np.array([prod(self.shape(i)) for i in range(len(self.scopes))], dtype=np.intp)

    @cached_property
    def offsets(self) -> IndexArray:
        """The start of each table, and at last the end of the vector."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.intp)

    @property
    def n_cells(self) -> int:
        """Length of the flat vector."""
        return int(self.offsets[-1])

    @cached_property
    def index(self) -> dict[Scope, int]:
        """First table of each scope."""
        found: dict[Scope, int] = {}
        for i, scope in enumerate(self.scopes):
            found.setdefault(scope, i)
        return found

    @cached_property
    def runs(self) -> tuple[TableRun, ...]:
        """The longest runs of tables of equal shape."""
        found, start = [], 0
        for shape, group in groupby(range(len(self.scopes)), key=self.shape):
            stop = start + sum(1 for _ in group)
            found.append(TableRun(start, stop, shape, int(self.offsets[start])))
            start = stop
        return tuple(found)

    def table(self, flat: FloatArray, i: int) -> FloatArray:
        """Table i of a flat vector: a view."""
        return flat[self.offsets[i] : self.offsets[i + 1]].reshape(self.shape(i))

    def per_cell(self, values: FloatArray) -> FloatArray:
        """One value per table, repeated for each of its cells."""
        return np.repeat(values, self.counts)

    def totals(self, flat: FloatArray) -> FloatArray:
        """Sum of each table."""
        if not self.scopes:
            return np.zeros(0)
        return np.asarray(np.add.reduceat(flat, self.offsets[:-1]), dtype=np.float64)

    def add_per_table(self, flat: FloatArray, values: FloatArray) -> None:
        """Add to each cell the value of its table, in place."""
        self._apply(np.add, flat, values)

    def scale_per_table(self, flat: FloatArray, values: FloatArray) -> None:
        """Multiply each cell by the value of its table, in place."""
        self._apply(np.multiply, flat, values)

    def _apply(self, operation: np.ufunc, flat: FloatArray, values: FloatArray) -> None:
        if len(self.runs) > _MOST_RUNS:
            operation(flat, self.per_cell(values), out=flat)
            return
        for run in self.runs:
            part = flat[run.cells].reshape(run.n, -1)
            operation(part, values[run.start : run.stop, None], out=part)


_MOST_RUNS = 32
"""With more runs than this one pass over the vector is faster than a call per run."""


def layout_of(sizes: Sequence[int], scopes: Iterable[Scope]) -> Layout:
    """The layout of these scopes, equal shapes side by side, largest tables first."""
    sizes = tuple(sizes)

    def place(scope: Scope) -> tuple[int, tuple[int, ...], Scope]:
        shape = tuple(sizes[a] for a in scope)
        return -prod(shape), shape, scope

    return Layout(sizes, tuple(sorted(scopes, key=place)))


def added_up(cells: IndexArray, values: FloatArray, n_cells: int) -> FloatArray:
    """Values added up by the cell they belong to, shape (n_cells,)."""
    return np.bincount(cells, values, minlength=n_cells).astype(np.float64, copy=False)


def check_scope(scope: Scope, sizes: Sequence[int]) -> None:
    """Raise InputError unless `scope` is a rising tuple of attributes of the domain."""
    rising = all(a < b for a, b in pairwise(scope))
    if not rising or (scope and not 0 <= scope[0] <= scope[-1] < len(sizes)):
        raise InputError("scope", f"be a rising tuple of attributes 0 to {len(sizes) - 1}", scope)


MAX_SCOPE = 16
"""Most attributes in one scope: callers look at every part of a scope."""


def distinct(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """The distinct scopes in order, without the empty one."""
    found = tuple(s for s in dict.fromkeys(scopes) if s)
    for scope in found:
        if len(scope) > MAX_SCOPE:
            raise CapacityError(f"A scope has {len(scope)} attributes; {MAX_SCOPE} are the most.")
    return found


def parts(scope: Scope) -> Iterable[Scope]:
    """Every part of a scope, including itself and the empty one."""
    return chain.from_iterable(combinations(scope, k) for k in range(len(scope) + 1))


def with_intersections(scopes: Iterable[Scope], *, most: int = 1 << 16) -> tuple[Scope, ...]:
    """The distinct scopes and their intersections, without the empty one.

    Raises:
        CapacityError: there are more than `most`.
    """
    found: set[frozenset[int]] = set()
    for scope in scopes:
        # The scopes found so far include their intersections, so that one pass is enough.
        whole = frozenset(scope)
        found |= {whole & other for other in found} | {whole}
        if len(found) > most:
            raise CapacityError(f"Scopes with more than {most:,} intersections; that is the most.")
    return tuple(sorted((tuple(sorted(s)) for s in found if s), key=lambda s: (len(s), s)))
