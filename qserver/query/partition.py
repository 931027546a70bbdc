"""A product partition: every cell of a partition of some attributes' values, as disjoint rows.

A marginal, a histogram and a level of a hierarchy are product partitions; the one without axes has
a single cell, the total. A *restricted* one has no cells for some values of an attribute, such as
periods without data yet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.errors import QueryError
from qserver.query.grid import AxisClasses
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.weights import Weights, indicator

MAX_TABLE_CELLS = 1 << 16
"""A larger table would keep its worker busy for many seconds: a cell takes some 25 microseconds."""


@dataclass(frozen=True)
class ProductPartition:
    """The cells of a product of partitions, in row-major order of `axes`.

    Args:
        sizes: number of values per attribute of the domain.
        axes: per attribute that is told apart, in order, its values' parts (two or more, numbered
            by first occurrence); attributes left out are one part each. Values of part -1 are in no
            cell; beside them one part is enough.

    Raises:
        QueryError: the axes do not partition attributes of the domain, or the cells are too many.
    """

    sizes: tuple[int, ...]
    axes: tuple[AxisClasses, ...]

    def __post_init__(self) -> None:
        if any(a.axis >= b.axis for a, b in pairwise(self.axes)):
            raise QueryError("axes", "be in rising order, each once")
        for parts in self.axes:
            _check_parts(parts, self.sizes)
        if sum(parts.leaves_out for parts in self.axes) > 1:
            raise QueryError("axes", "leave out values of one attribute at most")
        if self.n_cells > MAX_TABLE_CELLS:
            raise QueryError("axes", f"have at most {MAX_TABLE_CELLS} cells", self.n_cells)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of parts per axis."""
        return tuple(a.n for a in self.axes)

    @property
    def n_cells(self) -> int:
        """Number of cells; 1 for the total."""
        return prod(self.shape)

    @cached_property
    def restricted(self) -> AxisClasses | None:
        """The attribute some of whose values are in no cell, or None."""
        return next((a for a in self.axes if a.leaves_out), None)

    @cached_property
    def inside(self) -> LinearQuery:
        """The row that counts the records that are in some cell."""
        found = self.restricted
        if found is None:
            return linear_query(self.sizes, [(1, {})])
        values = np.flatnonzero(found.dense >= 0).tolist()
        return linear_query(self.sizes, [(1, {found.axis: indicator(len(found.dense), values)})])

    @cached_property
    def key(self) -> str:
        """Digest that equal partitions of one domain share."""
        text = json.dumps([list(self.sizes), self.to_document()], separators=(",", ":"))
        return "table:" + hashlib.sha256(text.encode()).hexdigest()[:40]

    def __hash__(self) -> int:
        return hash(self.key)

    def row(self, cell: int) -> LinearQuery:
        """The primitive row of one cell: the indicator of its values.

        Raises:
            QueryError: there is no such cell.
        """
        if not 0 <= cell < self.n_cells:
            raise QueryError("cell", f"be 0 to {self.n_cells - 1}", cell)
        places = np.unravel_index(cell, self.shape) if self.axes else ()
        weights = {
            parts.axis: _part(parts, int(place), self.sizes[parts.axis])
            for parts, place in zip(self.axes, places, strict=True)
        }
        return linear_query(self.sizes, [(1, weights)])

    def cell_of(self, row: LinearQuery) -> int | None:
        """The cell whose indicator `row` is, or None."""
        if row.sizes != self.sizes or len(row.terms) != 1 or row.terms[0].coefficient != 1:
            return None
        weights = row.terms[0].by_axis
        if set(weights) != {a.axis for a in self.axes}:
            return None
        cell = 0
        for parts in self.axes:
            place = _part_of(parts, weights[parts.axis])
            if place is None:
                return None
            cell = cell * parts.n + place
        return cell

    def to_document(self) -> list[list[Any]]:
        """Plain JSON values: [axis, stops, part of each run] per axis."""
        return [[a.axis, list(a.stops), list(a.ids)] for a in self.axes]

    @classmethod
    def from_document(
        cls, sizes: Sequence[int], document: Sequence[Sequence[Any]]
    ) -> ProductPartition:
        """The partition that `to_document` wrote; QueryError where it is none."""
        axes = [
            AxisClasses(
                int(axis), tuple(map(int, stops)), tuple(map(int, ids)), 1 + max(ids, default=-1)
            )
            for axis, stops, ids in document
        ]
        return cls(tuple(sizes), tuple(axes))


def product_partition(
    sizes: Sequence[int], parts: Mapping[int, Sequence[int] | NDArray[np.integer[Any]]]
) -> ProductPartition:
    """The partition in which two values of an axis stay together where their labels are equal.

    Args:
        parts: per axis a label for every value, -1 for values in no cell; an axis of one label
            that leaves no value out is left out.
    """
    axes = [_axis_parts(axis, np.asarray(labels)) for axis, labels in sorted(parts.items())]
    return ProductPartition(tuple(sizes), tuple(a for a in axes if a.n > 1 or a.leaves_out))


def _axis_parts(axis: int, labels: NDArray[Any]) -> AxisClasses:
    found, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    order = np.argsort(first)
    order = order[found[order] >= 0]
    rank[:] = -1
    rank[order] = np.arange(len(order))
    ids = rank[inverse.ravel()]
    stops = [*(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
    runs = [int(ids[stop - 1]) for stop in stops]
    return AxisClasses(axis, tuple(stops), tuple(runs), len(order))


def _check_parts(parts: AxisClasses, sizes: tuple[int, ...]) -> None:
    if not 0 <= parts.axis < len(sizes):
        raise QueryError("axis", f"be 0 to {len(sizes) - 1}", parts.axis)
    rising = all(a < b for a, b in pairwise((0, *parts.stops)))
    if not rising or parts.stops[-1:] != (sizes[parts.axis],):
        raise QueryError("stops", f"rise to {sizes[parts.axis]}, the attribute's size")
    first_seen = [part for part in dict.fromkeys(parts.ids) if part != -1]
    least = 1 if parts.leaves_out else 2
    if len(parts.ids) != len(parts.stops) or first_seen != list(range(parts.n)) or parts.n < least:
        raise QueryError("ids", "number two or more parts by first occurrence, one per run")
    if any(a == b for a, b in pairwise(parts.ids)):
        raise QueryError("ids", "differ from run to run")


def _part(parts: AxisClasses, place: int, size: int) -> Weights:
    return indicator(size, np.flatnonzero(parts.dense == place).tolist())


def _part_of(parts: AxisClasses, weights: Weights) -> int | None:
    """The part whose indicator these weights are, or None."""
    if not weights.is_indicator:
        return None
    inside = weights.dense == 1
    place = int(parts.dense[np.argmax(inside)])
    return place if place >= 0 and bool(((parts.dense == place) == inside).all()) else None
