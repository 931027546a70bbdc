"""Rows as short vectors over corners, and as one growing sparse matrix.

A weight vector on one attribute is the sum over its stops x of (weight before x - weight after x)
times [value < x]. A product over attributes is then a sum over *corners*: one stop per attribute,
where the end of an attribute means that it has no condition. A range has two corners and a
predicate on three attributes of ten values about a hundred, however many cells there are. Different
corners are linearly independent as functions of the cell. So weights a are unbiased for a query if
and only if they give its corners exactly.

Corners have exact names: a corner is a node in a tree, whose edges are stops in the order of the
attributes. The numbers of nodes are given in the order of arrival.

Edges of a tree are numbered from 1 in the order of arrival.

A process that continues from a checkpoint has the saved edges as a sorted array. It takes a tenth
of a dictionary's memory, and processes share it.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, csr_array

from qserver.inference.arrays import FloatArray, GrowingArray
from qserver.inference.limits import MOST_CORNERS
from qserver.query.linear_query import LinearQuery, Term
from qserver.query.weights import Weights
from qserver.records.state import State, bytes_of_rows, rows_of_bytes


class Edges:
    """Numbers of edges; `saved`: from `state`, for reading only."""

    def __init__(self, saved: State | None = None) -> None:
        nothing = np.zeros(0, dtype=np.int64)
        self._sorted = nothing if saved is None else saved.arrays["edges"]
        self._numbers = nothing if saved is None else saved.arrays["numbers"]
        first = len(self._sorted) + 1
        self._later: defaultdict[int, int] = defaultdict(count(first).__next__)

    def __len__(self) -> int:
        return len(self._sorted) + len(self._later)

    def state(self) -> State:
        """State that makes these edges again."""
        later = np.fromiter(self._later, dtype=np.int64, count=len(self._later))
        edges = np.concatenate([self._sorted, later])
        first = len(self._sorted) + 1
        numbers = np.concatenate([self._numbers, np.arange(first, first + len(later))])
        order = np.argsort(edges)
        return State({}, {"edges": edges[order], "numbers": numbers[order].astype(np.int32)})

    def added(self, edges: Sequence[int]) -> list[int]:
        """The numbers of these edges; new ones get the next."""
        if not len(self._sorted):
            return list(map(self._later.__getitem__, edges))
        saved = self._saved(edges)
        return [n or self._later[edge] for edge, n in zip(edges, saved, strict=True)]

    def found(self, edges: Sequence[int]) -> list[int | None]:
        """The numbers of these edges; None for unknown ones."""
        later = list(map(self._later.get, edges))
        if not len(self._sorted):
            return later
        return [n or other for n, other in zip(self._saved(edges), later, strict=True)]

    def _saved(self, edges: Sequence[int]) -> list[int]:
        """The numbers of saved edges; 0 for others."""
        wanted = np.array(edges, dtype=np.int64)
        places = np.minimum(np.searchsorted(self._sorted, wanted), len(self._sorted) - 1)
        found = np.where(self._sorted[places] == wanted, self._numbers[places], 0)
        return found.tolist()  # type: ignore[no-any-return]


IntArray = npt.NDArray[np.int64]

_EXACT = 1 << 53
_SMALL = 1 << 30
_MOST_BITS = 512
# Numbers of nodes and of places are below 2^31, so that an edge fits 64 bits with its sign.
_PLACE_BITS = 31
_UNKNOWN_PLACE = 1 << (_PLACE_BITS - 1)


@dataclass(frozen=True, eq=False)
class CornerVector:
    """A query times `unit`, as values by corner.

    Args:
        ids: numbers of the corners, all different, shape (n,). Negative ones are corners of no row.
        values: shape (n,). Whole numbers, exact where all are below 2^53, else within half an ulp.
        unit: > 0; the query is the vector over it.
    """

    ids: IntArray
    values: FloatArray
    unit: float

    @property
    def largest(self) -> float:
        """The largest value by size; 0 for the zero query."""
        return float(np.abs(self.values).max(initial=0.0))

    @property
    def is_small(self) -> bool:
        """Whether unit and values are exact, with bits to spare."""
        return self.largest <= _SMALL and self.unit < _EXACT


class CornerNames:
    """The numbers of corners."""

    def __init__(self) -> None:
        self._places: defaultdict[tuple[int, int], int] = defaultdict(count().__next__)
        self._children = Edges()
        self._whole: dict[LinearQuery, int] = {}

    def state(self) -> State:
        """State that `from_state` reads."""
        places = np.array(list(self._places), dtype=np.int64).reshape(-1, 2)
        own = State({}, {"places": places, "whole": bytes_of_rows(self._whole)})
        return State.of_parts({"edges": self._children.state(), "own": own})

    @classmethod
    def from_state(cls, state: State, sizes: Sequence[int]) -> CornerNames:
        """Restore the names."""
        found, own = cls(), state.part("own").arrays
        for axis, stop in own["places"].tolist():
            found._places[axis, stop]
        found._children = Edges(state.part("edges"))
        found._whole = {q: ~i for i, q in enumerate(rows_of_bytes(own["whole"], sizes))}
        return found

    def __len__(self) -> int:
        return len(self._children) + 1

    def of_row(self, query: LinearQuery) -> CornerVector:
        """The vector of a row; its corners get numbers."""
        if _is_whole(query):
            edge = self._whole.setdefault(query, ~len(self._whole))
            return _single(self._children.added([edge])[0])
        return _vector(query, self._places.__getitem__, self._children.added)

    def of_query(self, query: LinearQuery) -> CornerVector:
        """The vector of a query; its new corners get temporary negative numbers."""
        if _is_whole(query):
            known = self._whole.get(query)
            return _single(-1 if known is None else self._children.added([known])[0])
        places: dict[tuple[int, int], int] = {}
        children: dict[int, int] = {}

        def place_of(place: tuple[int, int]) -> int:
            old = self._places.get(place)
            if old is not None:
                return old
            return places.setdefault(place, _UNKNOWN_PLACE + len(places))

        def children_of(edges: list[int]) -> list[int]:
            return [
                children.setdefault(edge, ~len(children)) if old is None else old
                for edge, old in zip(edges, self._children.found(edges), strict=True)
            ]

        return _vector(query, place_of, children_of)


def _is_whole(query: LinearQuery) -> bool:
    """Whether a query's terms may have too many corners."""
    found = sum(prod(len(f.weights.stops) for f in term.factors) for term in query.terms)
    return found > MOST_CORNERS


def _single(corner: int) -> CornerVector:
    return CornerVector(np.array([corner]), np.ones(1), 1.0)


_Place = Callable[[tuple[int, int]], int]
_Children = Callable[[list[int]], list[int]]


def _vector(query: LinearQuery, place_of: _Place, children_of: _Children) -> CornerVector:
    denominator = query.denominator
    parts = [_term(t, int(t.coefficient * denominator), place_of, children_of) for t in query.terms]
    if not parts:
        return CornerVector(np.zeros(0, dtype=np.int64), np.zeros(0), 1.0)
    is_exact = denominator < _EXACT and sum(p.size for p in parts) < _EXACT
    kind = np.float64 if is_exact else object
    if is_exact and len(parts) == 1:
        # The corners of one term are different, and none of its jumps is zero.
        return CornerVector(parts[0].ids, parts[0].values(kind), float(denominator))
    ids = np.concatenate([p.ids for p in parts])
    values = np.concatenate([p.values(kind) for p in parts])
    distinct, where = np.unique(ids, return_inverse=True)
    if not is_exact:
        return _rounded(distinct, where, values, denominator)
    sums = np.bincount(where, weights=values, minlength=len(distinct))
    used = sums != 0.0
    return CornerVector(distinct[used], sums[used], float(denominator))


@dataclass(frozen=True, eq=False)
class _Corners:
    """The corners of a term, in the order of the products of its factors' jumps."""

    ids: IntArray
    coefficient: int
    jumps: list[tuple[int, ...]]

    @property
    def size(self) -> int:
        """Sum of the values' sizes."""
        return abs(self.coefficient) * prod(sum(map(abs, j)) for j in self.jumps)

    def values(self, kind: type[object]) -> npt.NDArray[Any]:
        product = np.array([self.coefficient], dtype=kind)
        for found in self.jumps:
            product = np.multiply.outer(product, np.array(found, dtype=kind)).ravel()
        return product


def _term(term: Term, coefficient: int, place_of: _Place, children_of: _Children) -> _Corners:
    nodes, jumps = np.zeros(1, dtype=np.int64), []
    for factor in term.factors:
        axis, found = factor.axis, jumps_of(factor.weights)
        # The end is no condition: there the corner stays as it is.
        places = [place_of((axis, stop)) for stop in factor.weights.stops[:-1]]
        edges = (nodes[:, None] << _PLACE_BITS | np.array(places, dtype=np.int64)).ravel()
        below = np.array(children_of(edges.tolist()), dtype=np.int64)
        below = below.reshape(len(nodes), -1)
        if found[-1]:
            below = np.hstack([below, nodes[:, None]])
        nodes = below.ravel()
        jumps.append(found if found[-1] else found[:-1])
    return _Corners(nodes, coefficient, jumps)


def jumps_of(weights: Weights) -> tuple[int, ...]:
    """v_i - v_(i+1) at the i-th stop, and the last value at the end; v is their upper sums."""
    values = weights.values
    return tuple(v - w for v, w in zip(values, (*values[1:], 0), strict=True))


def _rounded(
    ids: IntArray, where: IntArray, values: npt.NDArray[np.object_], denominator: int
) -> CornerVector:
    """The vector of exact sums, each rounded once to a float."""
    sums = [0] * len(ids)
    for i, value in zip(where.tolist(), values.tolist(), strict=True):
        sums[i] += value
    used = [i for i, value in enumerate(sums) if value]
    largest = max((abs(sums[i]) for i in used), default=1)
    shift = max(0, max(largest, denominator).bit_length() - _MOST_BITS)
    rounded = np.array([_shifted(sums[i], shift) for i in used])
    return CornerVector(ids[used], rounded, _shifted(denominator, shift))


def _shifted(value: int, shift: int) -> float:
    return float(value) if not shift else value / (1 << shift)


_BITS = 52
_FEW = 8
"""Fewer rows than a part in so many are gathered one by one."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Values by corner; corners that are not named have 0.

    Args:
        ids: rising, shape (n,).
        values: shape (n,).
    """

    ids: IntArray
    values: FloatArray

    def at(self, corner: int) -> float:
        """The value of one corner."""
        place = int(np.searchsorted(self.ids, corner))
        found = place < len(self.ids) and self.ids[place] == corner
        return float(self.values[place]) if found else 0.0

    def minus(self, other: Sums, factor: float = 1.0) -> Sums:
        """These minus `factor` times the others."""
        if not len(other.ids):
            return self
        ids = np.concatenate([self.ids, other.ids])
        return _summed(ids, np.concatenate([self.values, -factor * other.values]))

    @classmethod
    def of(cls, vector: CornerVector) -> Sums:
        """The values of a vector."""
        order = np.argsort(vector.ids)
        return cls(vector.ids[order], vector.values[order])

    @property
    def largest(self) -> float:
        """The largest value by size, or 0."""
        return float(np.abs(self.values).max(initial=0.0))

    @property
    def size(self) -> float:
        """Sum of the values' sizes."""
        return float(np.abs(self.values).sum())


class RowMatrix:
    """Rows as corner vectors with whole values; row i is `units[i]` times a measured row."""

    def __init__(self) -> None:
        self._ids = GrowingArray(np.int32)
        self._values = GrowingArray(np.float64)
        self._ends = GrowingArray(np.int32)
        self._ends.extend([0])
        self._known: csc_array | None = None
        self._units = GrowingArray(np.float64)
        self._largest = GrowingArray(np.float64)
        self._sizes = GrowingArray(np.float64)
        self._are_small = GrowingArray(np.bool_)

    def state(self, n_rows: int) -> State:
        """State of the first `n_rows` rows that `from_state` reads."""
        end = int(self._ends.view[n_rows])
        return State(
            {},
            {
                "ids": self._ids.view[:end],
                "values": self._values.view[:end],
                "ends": self._ends.view[: n_rows + 1],
                "units": self.units[:n_rows],
                "largest": self.largest[:n_rows],
                "sizes": self.sizes[:n_rows],
                "are_small": self.are_small[:n_rows],
            },
        )

    @classmethod
    def from_state(cls, state: State) -> RowMatrix:
        """Restore the rows."""
        found = cls()
        for name, array in state.arrays.items():
            setattr(found, f"_{name}", GrowingArray.of(array))
        return found

    def __len__(self) -> int:
        return len(self._units)

    @property
    def units(self) -> FloatArray:
        """Unit per row, shape (n,)."""
        return self._units.view

    @property
    def largest(self) -> FloatArray:
        """Largest value per row by size, shape (n,)."""
        return self._largest.view

    @property
    def sizes(self) -> FloatArray:
        """Sum of the values' sizes per row, shape (n,)."""
        return self._sizes.view

    @property
    def are_small(self) -> npt.NDArray[np.bool_]:
        """Whether sums of each row's values can be exact, shape (n,)."""
        return self._are_small.view

    def append(self, vector: CornerVector) -> None:
        """Add a row."""
        self._known = None
        self._ids.extend(vector.ids)
        self._values.extend(vector.values)
        self._ends.extend([len(self._ids)])
        self._units.extend([vector.unit])
        self._largest.extend([vector.largest])
        self._sizes.extend([np.abs(vector.values).sum()])
        self._are_small.extend([vector.is_small])

    def tried(self) -> RowMatrix:
        """A copy to add rows to; valid until this matrix gets a row."""
        found = copy.copy(self)
        for name, array in vars(self).items():
            if isinstance(array, GrowingArray):
                setattr(found, name, copy.copy(array))
        return found

    def vector(self, i: int) -> CornerVector:
        """One row as it was appended."""
        part = slice(int(self._ends.view[i]), int(self._ends.view[i + 1]))
        ids = self._ids.view[part].astype(np.int64)
        return CornerVector(ids, self._values.view[part], float(self.units[i]))

    def row(self, i: int) -> Sums:
        """One row."""
        part = slice(int(self._ends.view[i]), int(self._ends.view[i + 1]))
        order = np.argsort(self._ids.view[part])
        return Sums(self._ids.view[part][order].astype(np.int64), self._values.view[part][order])

    def matrix(self, n_columns: int, n_rows: int | None = None) -> csr_array:
        """The first `n_rows` rows as a sparse matrix; columns are corners."""
        n = len(self) if n_rows is None else n_rows
        ends = self._ends.view[: n + 1]
        parts = (self._values.view[: ends[-1]], self._ids.view[: ends[-1]], ends)
        return csr_array(parts, shape=(n, n_columns))

    @property
    def whole(self) -> csr_array:
        """All rows; valid until the next one."""
        return csr_array(self._transposed.T)

    @property
    def _transposed(self) -> csc_array:
        """The rows as columns, shape (n corners, n)."""
        if self._known is None:
            n_corners = int(self._ids.view.max(initial=0)) + 1
            self._known = self.matrix(n_corners).T
        return self._known

    def combined(self, weights: FloatArray) -> Sums:
        """Sum of weights times rows, shape of weights: (n,)."""
        used = np.flatnonzero(weights)
        if not len(used):
            return Sums(np.zeros(0, dtype=np.int64), np.zeros(0))
        ends = self._ends.view
        if _FEW * len(used) > len(weights) and len(used) > _FEW:
            dense = self._transposed @ weights
            ids = np.flatnonzero(dense)
            return Sums(ids, np.asarray(dense[ids]))
        parts = [slice(int(ends[i]), int(ends[i + 1])) for i in used]
        ids = np.concatenate([self._ids.view[p] for p in parts]).astype(np.int64)
        values = [self._values.view[p] * weights[i] for p, i in zip(parts, used, strict=True)]
        return _summed(ids, np.concatenate(values))

    def part_of(self, weights: FloatArray, rest: Sums) -> FloatArray:
        """The leading bits of the weights, so few that `rest` minus the combination is exact."""
        most = float(np.abs(weights) @ self._largest.view) + rest.largest
        unit = np.ldexp(1.0, int(np.frexp(most)[1]) - _BITS)
        return np.asarray(np.rint(weights / unit) * unit)


def _summed(ids: IntArray, values: FloatArray) -> Sums:
    distinct, where = np.unique(ids, return_inverse=True)
    sums = np.bincount(where, weights=values, minlength=len(distinct))
    used = sums != 0.0
    return Sums(distinct[used], sums[used])
