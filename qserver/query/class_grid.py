"""A query on its class grid: values of an attribute that no factor separates form one class.

A query of few terms has a tiny class grid even on a domain of 10^12 cells, so its extremes and
exact vector can be enumerated. A product partition turns such classes into the cells of a table.

Unions of boxes become disjoint boxes, and so sums of product terms.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from qserver.errors import CapacityError, QueryError
from qserver.query.linear_query import MAX_TERMS, LinearQuery, Term, linear_query
from qserver.query.weights import ScaledWeights, Weights, from_runs, indicator

# A box: per axis the allowed values as the set bits of an integer; an absent axis allows all.
Box = Mapping[int, int]
# Pairs of boxes compared, and bits of masks held in all: some seconds, some tens of megabytes.
MAX_COMPARISONS = 1 << 22
MAX_MASK_BITS = 1 << 28
_WORD = 1 << 13


def disjoint_union(
    boxes: Sequence[Box], sizes: Sequence[int], *, max_comparisons: int | None = None
) -> list[dict[int, int]]:
    """Disjoint boxes that cover exactly the cells of at least one of `boxes`.

    Args:
        max_comparisons: pairs of boxes of small masks that may be compared; 2^22 by default.

    Raises:
        CapacityError: more boxes than a query may have terms, or too much work to find them.
    """
    axes = {axis for box in boxes for axis in box}
    bits = sum(sizes[axis] for axis in axes)
    check_mask_bits(bits * len(boxes))
    allowed = MAX_COMPARISONS if max_comparisons is None else max_comparisons
    left = allowed // (1 + bits // _WORD)
    covered: list[dict[int, int]] = []
    for box in boxes:
        rest = [dict(box)]
        for earlier in tuple(covered):
            left -= len(rest)
            rest = [part for piece in rest for part in subtract(piece, earlier, sizes)]
            if len(rest) + len(covered) > MAX_TERMS or left < 0:
                raise CapacityError(
                    f"The union needs more than {MAX_TERMS:,} disjoint terms, or too many steps "
                    "to find them. Ask its parts."
                )
        covered.extend(rest)
    return covered


def check_mask_bits(n_bits: int) -> None:
    """Raise CapacityError if masks of `n_bits` bits in total take too much memory."""
    if n_bits > MAX_MASK_BITS:
        raise CapacityError("The union is of too many sets of too many values. Ask its parts.")


def subtract(box: Box, other: Box, sizes: Sequence[int]) -> list[dict[int, int]]:
    """Disjoint boxes that cover the cells of `box` outside `other`.

    An axis whose mask is 0 makes a box empty.
    """
    if any(_mask(box, a, sizes) & m == 0 for a, m in other.items()):
        return [dict(box)]
    parts = []
    inside = dict(box)
    for axis, mask in other.items():
        mine = _mask(inside, axis, sizes)
        outside = mine & ~mask
        if outside:
            parts.append({**inside, axis: outside})
        inside[axis] = mine & mask
    return parts


def _mask(box: Box, axis: int, sizes: Sequence[int]) -> int:
    return box.get(axis, (1 << sizes[axis]) - 1)


def box_weights(box: Box, sizes: Sequence[int]) -> dict[int, ScaledWeights]:
    """The weights, 1 inside and 0 outside, of each axis that the box restricts."""
    return {axis: mask_weights(mask, sizes[axis]) for axis, mask in box.items()}


def mask_weights(mask: int, size: int) -> ScaledWeights:
    """Weights 1 where a bit of `mask` is set, 0 elsewhere."""
    packed = np.frombuffer(mask.to_bytes(-(-size // 8), "little"), dtype=np.uint8)
    dense = np.unpackbits(packed, count=size, bitorder="little")
    stops = np.append(np.flatnonzero(np.diff(dense)) + 1, size)
    return from_runs(stops.tolist(), dense[stops - 1].tolist())


def mask_of(weights: Weights) -> int:
    """The mask of an indicator's ones."""
    bits = np.packbits(weights.dense.astype(np.uint8), bitorder="little")
    return int.from_bytes(bits.tobytes(), "little")


# Exact integers: int64 where a bound shows that they fit, Python integers otherwise.
IntegerGrid: TypeAlias = NDArray[np.int64] | NDArray[np.object_]
_INT64_SAFE = 1 << 62
# Runs times weight vectors of one attribute: some seconds of work.
MAX_SIGNATURES = 1 << 26
_CHUNK = 1 << 20


@dataclass(frozen=True)
class AxisClasses:
    """Classes of one attribute's values as runs: run i, up to `stops[i]`, is of class `ids[i]`.

    Classes are numbered by first occurrence. `n` is their number. A run of -1 is in no class, only
    in tables that leave values out.
    """

    axis: int
    stops: tuple[int, ...]
    ids: tuple[int, ...]
    n: int

    def on_classes(self, weights: Weights) -> NDArray[np.int64]:
        """`weights` by class, shape (n,); they must be constant on each class."""
        out = np.zeros(self.n, dtype=np.int64)
        stops, ids = self._runs
        out[ids] = _on_runs(weights, stops)
        return out

    @cached_property
    def _runs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array(self.stops, dtype=np.int64), np.array(self.ids, dtype=np.int64)

    @property
    def leaves_out(self) -> bool:
        """Whether some values are of no class."""
        return -1 in self.ids

    @property
    def dense(self) -> NDArray[np.intp]:
        """Class of each value, shape (size,)."""
        lengths = np.diff(np.array((0, *self.stops)))
        return np.repeat(np.array(self.ids, dtype=np.intp), lengths)


@dataclass(frozen=True)
class GridValues:
    """A vector on a reduced grid: no axis without effect, no two classes with equal slices."""

    axes: tuple[AxisClasses, ...]
    values: NDArray[np.object_]


@dataclass(frozen=True)
class Extremes:
    """Least and greatest cell value, or bounds of them."""

    low: Fraction
    high: Fraction


@dataclass(frozen=True)
class ClassGrid:
    """The product of the classes of the given axes; other attributes have no effect."""

    axes: tuple[AxisClasses, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of classes per axis."""
        return tuple(a.n for a in self.axes)

    @property
    def n_cells(self) -> int:
        """Number of grid cells, exactly."""
        return prod(self.shape)

    def values(self, query: LinearQuery) -> IntegerGrid:
        """Exact integers: cell values times `query.denominator`, of shape `shape`."""
        scale = query.denominator
        dtype: np.dtype[Any] = np.dtype(np.int64 if fits_int64(query) else object)
        total: NDArray[Any] = np.zeros(self.shape, dtype=dtype)
        for term in query.terms:
            total += self.term_values(term, int(term.coefficient * scale), dtype)
        return total

    def term_values(self, term: Term, coefficient: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """`coefficient` times the term's product over the grid's axes, broadcastable to `shape`."""
        out: NDArray[Any] = np.full((1,) * len(self.axes), coefficient, dtype=dtype)
        for i, classes in enumerate(self.axes):
            weights = term.by_axis.get(classes.axis)
            if weights is not None:
                shape = [1] * len(self.axes)
                shape[i] = classes.n
                out = out * classes.on_classes(weights).astype(dtype).reshape(shape)
        return out

    def reduced(self, values: IntegerGrid) -> GridValues:
        """The same vector with equal slices merged and idle axes dropped: a canonical form."""
        kept = []
        for i, classes in enumerate(self.axes):
            slices: dict[tuple[object, ...], int] = {}
            moved = np.moveaxis(values, i, 0).reshape(classes.n, -1)
            merged = [slices.setdefault(tuple(row.tolist()), len(slices)) for row in moved]
            first = np.unique(merged, return_index=True)[1]
            values = cast("IntegerGrid", np.take(values, first, axis=i))
            kept.append(_merge(classes, merged))
        idle = tuple(i for i, classes in enumerate(kept) if classes.n == 1)
        axes = tuple(classes for classes in kept if classes.n > 1)
        return GridValues(axes, np.squeeze(values, axis=idle).astype(object))


def class_grid(*queries: LinearQuery) -> ClassGrid:
    """The coarsest grid on which all the queries are constant within each cell."""
    axes: dict[int, dict[Weights, None]] = {}
    for query in queries:
        for term in query.terms:
            for factor in term.factors:
                axes.setdefault(factor.axis, {})[factor.weights] = None
    return ClassGrid(tuple(axis_classes(axis, list(w)) for axis, w in sorted(axes.items())))


def axis_classes(axis: int, vectors: Sequence[Weights]) -> AxisClasses:
    """Classes of one attribute's values under these vectors (at least one)."""
    if len(vectors) == 1 and len(vectors[0].stops) <= MAX_SIGNATURES:
        numbers = dict[int, int]()
        runs = tuple(numbers.setdefault(value, len(numbers)) for value in vectors[0].values)
        return AxisClasses(axis, vectors[0].stops, runs, len(numbers))
    stops = np.unique(np.concatenate([np.array(v.stops) for v in vectors]))
    if len(stops) * len(vectors) > MAX_SIGNATURES:
        raise CapacityError("A query tells too many values of one attribute apart. Ask its parts.")
    ids, n = [0] * len(stops), 1
    per_chunk = max(1, _CHUNK // len(stops))
    for start in range(0, len(vectors), per_chunk):
        # The first column refines the classes of the chunks before.
        columns = [np.array(ids), *(_on_runs(v, stops) for v in vectors[start : start + per_chunk])]
        seen: dict[bytes, int] = {}
        rows = np.stack(columns, axis=1, dtype=np.int64)
        ids, n = [seen.setdefault(row.tobytes(), len(seen)) for row in rows], len(seen)
    return AxisClasses(axis, tuple(map(int, stops)), tuple(ids), n)


def fits_int64(query: LinearQuery) -> bool:
    """Whether cell values times `query.denominator`, and all partial sums, fit 64 bits."""
    bound = sum(
        abs(t.coefficient * query.denominator)
        * prod(max(map(abs, f.weights.values)) for f in t.factors)
        for t in query.terms
    )
    return bound < _INT64_SAFE


def _on_runs(weights: Weights, stops: NDArray[np.int64]) -> NDArray[np.int64]:
    """`weights` by run, for runs on which they are constant."""
    own = np.searchsorted(np.array(weights.stops, dtype=np.int64), stops, side="left")
    return np.array(weights.values, dtype=np.int64)[own]


def bounded_extremes(query: LinearQuery, *, max_grid: int) -> Extremes:
    """Sound bounds of the least and greatest cell value of a query with a too large grid.

    Enumerates the grid over the axes that fit into `max_grid` cells, most used first, and bounds
    each term's product over the other axes by its extremes.
    """
    grid = class_grid(query)
    uses = {a.axis: sum(a.axis in t.by_axis for t in query.terms) for a in grid.axes}
    kept: list[AxisClasses] = []
    for classes in sorted(grid.axes, key=lambda a: (-uses[a.axis], a.n)):
        if prod(a.n for a in kept) * classes.n <= max_grid:
            kept.append(classes)
    part = ClassGrid(tuple(sorted(kept, key=lambda a: a.axis)))
    inside = {a.axis for a in kept}
    low: NDArray[np.object_] = np.zeros(part.shape, dtype=object)
    high: NDArray[np.object_] = np.zeros(part.shape, dtype=object)
    for term in query.terms:
        rest = _product_extremes(w for a, w in term.by_axis.items() if a not in inside)
        shape = part.term_values(term, int(term.coefficient * query.denominator), np.dtype(object))
        # In place, and typed: arrays without axes would turn into Python's or NumPy's numbers,
        # and NumPy compares some pairs of integers as floats.
        ends = [np.asarray(shape * int(end), dtype=object) for end in (rest.low, rest.high)]
        low += np.minimum(*ends, dtype=object)
        high += np.maximum(*ends, dtype=object)
    scale = query.denominator
    return Extremes(Fraction(int(low.min()), scale), Fraction(int(high.max()), scale))


def _product_extremes(factors: Iterable[Weights]) -> Extremes:
    low, high = 1, 1
    for weights in factors:
        a, b = min(weights.values), max(weights.values)
        ends = (low * a, low * b, high * a, high * b)
        low, high = min(ends), max(ends)
    return Extremes(Fraction(low), Fraction(high))


def _merge(classes: AxisClasses, merged: Sequence[int]) -> AxisClasses:
    """`classes` with class i renamed `merged[i]`, runs joined, numbered by first occurrence."""
    stops: list[int] = []
    ids: list[int] = []
    for stop, old in zip(classes.stops, classes.ids, strict=True):
        new = merged[old]
        if ids and ids[-1] == new:
            stops[-1] = stop
        else:
            stops.append(stop)
            ids.append(new)
    return AxisClasses(classes.axis, tuple(stops), tuple(ids), len(set(merged)))


MAX_TABLE_CELLS = 1 << 16
"""A larger table would keep its worker busy for many seconds: a cell takes some 25 microseconds."""


@dataclass(frozen=True)
class ProductPartition:
    """The cells of a product of partitions, in row-major order of `axes`.

    Args:
        sizes: number of values per attribute of the domain.
        axes: per separated attribute, in order, its values' parts (two or more, numbered by first
            occurrence); other attributes are one part each. Values of part -1 are in no cell; with
            them one part suffices.

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
        """The attribute with values outside of all cells, or None."""
        return next((a for a in self.axes if a.leaves_out), None)

    @cached_property
    def inside(self) -> LinearQuery:
        """The row that counts records in any cell."""
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
        """The cell with `row` as indicator, or None."""
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
        """Restore a partition from `to_document`; QueryError if it is none."""
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
    """The partition that keeps values of an axis together if their labels are equal.

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
    """The part with these weights as indicator, or None.

    Neighbouring runs differ in both, so the runs of ones must be those of the part.
    """
    if not weights.is_indicator:
        return None
    found = list[int]()
    for (start, stop), value in zip(pairwise((0, *weights.stops)), weights.values, strict=True):
        if value:
            i = bisect_left(parts.stops, stop)
            if parts.stops[i] != stop or start != (parts.stops[i - 1] if i else 0):
                return None
            found.append(parts.ids[i])
    if len(set(found)) != 1 or found[0] < 0:
        return None
    return found[0] if parts.ids.count(found[0]) == len(found) else None
