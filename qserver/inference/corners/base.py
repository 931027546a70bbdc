"""The rows of a history, factored once: peeled rows, then the connected parts of the core.

*Peeled rows.* A query fixes their weights corner by corner, in rounds, before any minimisation.

1. A corner that one remaining row has fixes that row's weight. The row leaves.
2. A group of remaining rows on the same attributes may be independent on the corners that only this
   group has. These corners fix the weights of the whole group. It leaves.

All unbiased weights agree on rows that left. What remains is the core.

*The core*: weights of least variance on one connected part of it.

Minimise the sum of a_i^2 b_i^2 with H'a = r. Small parts are solved by orthogonal factors: first
the row space of H, which does not depend on the noise, then the weights on it. In a large part let
M = H'WH with W = 1/b^2 and columns of unit length. M is singular where rows depend on others, so M
+ eI is factored, and the weights are a = WHy with y = (M + eI)^-1 r. They leave a small rest r - My
of the right side. Repeated on the rest this is a proximal point method, and it converges to the
weights of least variance.

*Public rows* are constraints: all other rows count modulo the public ones.

A public row has no noise, so any multiple of it may be subtracted from a query. Each independent
public row gives up one corner, its pivot: rows and queries are reduced until they have no pivot.
The total is one corner alone, so reducing by it only drops that corner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack, qr
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.vectors import IntArray, Sums
from qserver.inference.limits import MOST_FOR_DIRECTIONS
from qserver.records.state import State

BoolArray = npt.NDArray[np.bool_]

_INDEPENDENT = 1e-7
_MOST_DENSE = 1 << 23


@dataclass(frozen=True, eq=False)
class Peeled:
    """Peeled rows in order, and the corners that fixed their weights.

    Args:
        rows: shape (k,).
        pivots: corner per row, shape (k,).
        core: the remaining rows, shape (n - k,).
    """

    rows: IntArray
    pivots: IntArray
    core: IntArray


def peeled(rows: csr_array, groups: IntArray) -> Peeled:
    """Peel rows round by round until nothing changes.

    Args:
        groups: number of each row's set of attributes, shape (n,).
    """
    work = _Peeling(rows, groups)
    while work.take_single() or work.take_groups():
        pass
    return work.result()


class _Peeling:
    def __init__(self, rows: csr_array, groups: IntArray) -> None:
        self._rows, self._groups = rows, groups
        self._n, self._m = rows.shape
        self._entry_row = np.repeat(np.arange(self._n), np.diff(rows.indptr))
        self._entry_corner, self._entry_value = rows.indices, np.abs(rows.data)
        # A row without corners says nothing that public rows do not say.
        self._left: BoolArray = np.diff(rows.indptr) > 0
        self._taken: list[IntArray] = []
        self._pivots: list[IntArray] = []

    def take_single(self) -> bool:
        """Peel all rows that have a corner to themselves; return whether there was one."""
        counts = np.bincount(self._entry_corner, minlength=self._m)
        single = counts[self._entry_corner] == 1
        rows, corners = self._entry_row[single], self._entry_corner[single]
        # The largest single corner of each row comes last and stays.
        order = np.argsort(self._entry_value[single], kind="stable")
        pivot = np.full(self._n, -1)
        pivot[rows[order]] = corners[order]
        found = np.flatnonzero(pivot >= 0)
        self._take(found, pivot[found])
        return bool(len(found))

    def take_groups(self) -> bool:
        """Peel all groups with independent corners of their own; return whether there was one."""
        group = self._groups[self._entry_row]
        least = np.full(self._m, np.iinfo(np.int64).max)
        most = np.full(self._m, -1)
        np.minimum.at(least, self._entry_corner, group)
        np.maximum.at(most, self._entry_corner, group)
        own = least[self._entry_corner] == most[self._entry_corner]
        found = []
        for number in np.unique(group[own]):
            corners = np.unique(self._entry_corner[own & (group == number)])
            rows = np.flatnonzero(self._left & (self._groups == number))
            pivots = self._pivots_of(rows, corners)
            if pivots is not None:
                found.append((rows, pivots))
        for rows, pivots in found:
            self._take(rows, pivots)
        return bool(found)

    def _pivots_of(self, rows: IntArray, corners: IntArray) -> IntArray | None:
        """A corner per row, in an order in which elimination is stable; None if dependent."""
        if len(corners) < len(rows) or len(rows) * len(corners) > _MOST_DENSE:
            return None
        dense = np.asarray(self._rows[rows][:, corners].todense()).T
        dense = np.asfortranarray(dense / np.maximum(np.abs(dense).max(axis=0), 1e-300))
        lower_upper, swaps, _ = lapack.dgetrf(dense, overwrite_a=True)
        if np.abs(np.diag(lower_upper)).min() < _INDEPENDENT:
            return None
        order = corners.copy()
        for i, other in enumerate(swaps):
            order[[i, other]] = order[[other, i]]
        return np.asarray(order[: len(rows)])

    def _take(self, rows: IntArray, pivots: IntArray) -> None:
        if not len(rows):
            return
        self._taken.append(rows)
        self._pivots.append(pivots)
        self._left[rows] = False
        stays = self._left[self._entry_row]
        self._entry_row = self._entry_row[stays]
        self._entry_corner = self._entry_corner[stays]
        self._entry_value = self._entry_value[stays]

    def result(self) -> Peeled:
        nothing = np.zeros(0, dtype=np.int64)
        return Peeled(
            np.concatenate([nothing, *self._taken]),
            np.concatenate([nothing, *self._pivots]),
            np.flatnonzero(self._left),
        )


_SMALL = 300
_RANK = 1e-13
_SHIFTS = (1e-12, 1e-11, 1e-10, 1e-9)
_SPARSE = 0.1


class Core(ABC):
    """One connected part of the core.

    Args:
        rows: numbers of its rows, shape (n,).
        matrix: the rows on the part's corners, shape (n, m).
        scales: b per row, > 0, shape (n,).
    """

    def __init__(self, rows: IntArray, matrix: csr_array, scales: FloatArray) -> None:
        self.rows = rows
        self._matrix, self._scales = matrix, scales

    @abstractmethod
    def weights(self, right: FloatArray) -> FloatArray:
        """Weights of least variance that give `right`, or come close to it, shape (n,)."""

    @property
    def directions(self) -> FloatArray | None:
        """Weights that sum to zero, orthonormal in sum of a^2 b^2; None if there are many rows."""
        return None

    @property
    def factor(self) -> FloatArray | None:
        """The costly factor, if there is one."""
        return None


def core_of(
    rows: IntArray, matrix: csr_array, scales: FloatArray, factor: FloatArray | None = None
) -> Core:
    """The solver for a part, by its size; `factor`: of a large dense part, if known."""
    if min(matrix.shape) <= _SMALL and matrix.shape[0] < 10 * _SMALL:
        return SmallCore(rows, matrix, scales)
    return LargeCore(rows, matrix, scales, factor)


class SmallCore(Core):
    """A part with few rows or few corners."""

    def weights(self, right: FloatArray) -> FloatArray:
        """Weights of least variance that give `right`, or come close to it, shape (n,)."""
        return np.asarray(self._solution @ right)

    @property
    def directions(self) -> FloatArray | None:
        """Weights that sum to zero, orthonormal in sum of a^2 b^2; None if there are many rows."""
        return self._null_space if self._has_few_rows else None

    @cached_property
    def _solution(self) -> FloatArray:
        """The weights as a matrix on the right side, shape (n, m)."""
        found = self._factors
        rank = len(found.order)
        inner = np.linalg.solve(found.right.T, found.spanning.T[found.order])
        return np.asarray((found.left[:, :rank] @ inner) / self._scales[:, None])

    @cached_property
    def _null_space(self) -> FloatArray:
        found = self._factors
        return np.asarray(found.left[:, len(found.order) :].T / self._scales)

    @cached_property
    def _factors(self) -> _Factors:
        dense = np.asarray(self._matrix.todense())
        unit = dense / np.linalg.norm(dense, axis=1)[:, None]
        _, values, right = np.linalg.svd(unit, full_matrices=False)
        rank = int(np.count_nonzero(values > _RANK * values[0]))
        spanning = right[:rank].T
        work = (dense @ spanning) / self._scales[:, None]
        # Rows of least noise come first: elimination is then stable at any ratio of the scales.
        order = np.argsort(-np.abs(work).max(axis=1), kind="stable")
        mode: Literal["full", "economic"] = "full" if self._has_few_rows else "economic"
        left, upper, columns = qr(work[order], mode=mode, pivoting=True)
        back = np.empty_like(left)
        back[order] = left
        return _Factors(spanning, back, np.asarray(upper[:rank]), columns.astype(np.int64))

    @property
    def _has_few_rows(self) -> bool:
        return len(self.rows) <= MOST_FOR_DIRECTIONS


@dataclass(frozen=True, eq=False)
class _Factors:
    """Rows on their row space, over their scales, as `left` `right` with columns in `order`.

    Args:
        spanning: an orthonormal basis of the row space, shape (m, rank).
        left: orthonormal columns, shape (n, rank), or (n, n) for few rows.
        right: upper triangular, shape (rank, rank).
    """

    spanning: FloatArray
    left: FloatArray
    right: FloatArray
    order: IntArray


class LargeCore(Core):
    """A part with many rows and corners, by a sparse or dense factor."""

    def __init__(
        self, rows: IntArray, matrix: csr_array, scales: FloatArray, factor: FloatArray | None
    ) -> None:
        super().__init__(rows, matrix, scales)
        weighted = diags_array(1.0 / scales) @ matrix
        self._norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=0)).ravel())
        self._unit = csr_array(weighted @ diags_array(1.0 / self._norms))
        self._lower = factor
        if factor is not None:
            return
        gram = csc_array(csr_array(self._unit.T) @ self._unit)
        if gram.nnz < _SPARSE * gram.shape[0] ** 2:
            shifted = csc_array(gram + _SHIFTS[0] * eye_array(gram.shape[0]))
            options = {"SymmetricMode": True, "Equil": False}
            self._sparse = splu(
                shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
            )
        else:
            self._lower = _cholesky(gram)

    @property
    def factor(self) -> FloatArray | None:
        """The costly factor, if there is one."""
        return self._lower

    def weights(self, right: FloatArray) -> FloatArray:
        """Weights of least variance that give `right`, or come close to it, shape (n,)."""
        found = self._unit @ self._inverse(right / self._norms)
        return np.asarray(found / self._scales)

    def _inverse(self, right: FloatArray) -> FloatArray:
        if self._lower is None:
            return np.asarray(self._sparse.solve(right))
        # For one right side this takes half of the time of LAPACK's dpotrs.
        half = blas.dtrsv(self._lower, right, lower=1)
        return np.asarray(blas.dtrsv(self._lower, half, lower=1, trans=1))


def _cholesky(gram: csc_array) -> FloatArray:
    for shift in _SHIFTS:
        dense = np.asfortranarray(gram.todense())
        dense[np.diag_indices_from(dense)] += shift
        lower, failed = lapack.dpotrf(dense, lower=1, overwrite_a=1, clean=0)
        if not failed:
            return np.asarray(lower)
    raise np.linalg.LinAlgError("The Gram matrix of the core is not positive definite.")


_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class Quotient:
    """Public rows in reduced form.

    Args:
        pivots: corner of each independent public row, shape (k,).
        reduced: combinations of public rows with 1 at their own pivot and 0 at the others,
            shape (k, n_corners).
        mix: weights of the public rows in the reduced ones, shape (k, n_public).
    """

    pivots: IntArray
    reduced: csr_array
    mix: FloatArray

    @classmethod
    def of(cls, public: csr_array) -> Quotient:
        """The reduced form of these rows; dependent rows get no weight."""
        columns = np.unique(public.indices)
        work = np.asarray(public[:, columns].todense(), dtype=np.float64)
        n = len(work)
        sizes = np.abs(work).max(axis=1, initial=0.0)
        sizes[sizes == 0.0] = 1.0
        work = np.hstack([work, np.eye(n)]) / sizes[:, None]
        left, pivots = list(range(n)), []
        while left:
            part = np.abs(work[left][:, : len(columns)])
            if part.max(initial=0.0) <= _NOTHING:
                break
            place, column = divmod(int(part.argmax()), len(columns))
            row = left.pop(place)
            work[row] /= work[row, column]
            others = np.arange(n) != row
            work[others] -= np.outer(work[others, column], work[row])
            pivots.append((row, column))
        rows = [r for r, _ in pivots]
        reduced = work[rows][:, : len(columns)]
        reduced[np.abs(reduced) < _NOTHING] = 0.0
        spread = csr_array(reduced)
        spread = csr_array(
            (spread.data, columns[spread.indices], spread.indptr),
            shape=(len(rows), public.shape[1]),
        )
        at = columns[[c for _, c in pivots]] if pivots else np.zeros(0, dtype=np.int64)
        return cls(at.astype(np.int64), spread, work[rows][:, len(columns) :])

    def without(self, rows: csr_array) -> csr_array:
        """The rows modulo the public ones."""
        if not len(self.pivots):
            return rows
        shares = rows[:, self.pivots]
        found = csr_array(rows - shares @ self.reduced)
        # What is as small as rounding is nothing.
        sizes = _largest(rows) + _largest(shares) * float(np.abs(self.reduced.data).max())
        row_of = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
        found.data[np.abs(found.data) < _NOTHING * sizes[row_of]] = 0.0
        found.eliminate_zeros()
        return found


def _largest(rows: csr_array) -> FloatArray:
    """The largest value of each row by size."""
    rows = csr_array(rows)
    found = np.zeros(rows.shape[0])
    np.maximum.at(found, np.repeat(np.arange(len(found)), np.diff(rows.indptr)), np.abs(rows.data))
    return found


class Base:
    """Weights of least variance on rows that stay the same.

    Args:
        matrix: the rows by corner, shape (n, m).
        scales: noise per row, in the matrix's units; 0 for a public row. Shape (n,).
        groups: number of each row's set of attributes, shape (n,); not needed where `known` is.
        known: from `state` of a base of the same rows.
    """

    def __init__(
        self,
        matrix: csr_array,
        scales: FloatArray,
        groups: IntArray,
        known: State | None = None,
    ) -> None:
        self.n_rows, self.n_corners = matrix.shape
        self._public = np.flatnonzero(scales == 0.0)
        self._noisy = np.flatnonzero(scales > 0.0)
        self._quotient = Quotient.of(matrix[self._public])
        noisy = self._quotient.without(matrix[self._noisy])
        found = _saved(known) if known else peeled(noisy, groups[self._noisy])
        self._found, self._known = found, known
        self._peeled, pivots = found.rows, found.pivots
        rest = noisy[found.core]
        corners = np.unique(rest.indices).astype(np.int64)
        self._set_places([self._quotient.pivots, pivots, corners])
        at_pivots = matrix[self._noisy][:, self._quotient.pivots]
        self._public_part = csr_array(at_pivots.T)
        self._reduced = csr_array(self._quotient.reduced[:, np.concatenate([pivots, corners])].T)
        self._fix(noisy[found.rows], pivots, corners)
        self._cores: list[Core] = []
        self._core_of = np.full(self.n_rows, -1)
        self._corner_part = np.zeros(0, dtype=np.int64)
        self._corner_places: list[IntArray] = []
        self._split(found.core, csr_array(rest[:, corners]), scales[self._noisy])

    def state(self) -> State:
        """State from which a base of the same rows skips the peeling and the dense factors."""
        found = self._found
        arrays = {"rows": found.rows, "pivots": found.pivots, "core": found.core}
        factors = ((i, core.factor) for i, core in enumerate(self._cores))
        # A factor is stored by columns, as LAPACK has it.
        lower = {f"factor {i}": f.T for i, f in factors if f is not None}
        return State({}, {**arrays, **lower})

    def _set_places(self, corners: Sequence[IntArray]) -> None:
        """Number the corners that matter: of public rows, of peeled rows, and of the core."""
        tracked = np.concatenate(corners)
        self._place = np.full(self.n_corners, -1, dtype=np.int32)
        self._place[tracked] = np.arange(len(tracked))
        self._n_public, self._n_peeled, self._n_core = map(len, corners)

    def _fix(self, rows: csr_array, pivots: IntArray, corners: IntArray) -> None:
        """Factor the peeled rows on their pivots: triangular but for blocks."""
        self._to_core = csr_array(rows[:, corners].T)
        square = csc_array(rows[:, pivots].T)
        options = {"Equil": False}
        self._fixed = None
        if len(pivots):
            self._fixed = splu(square, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)

    def _split(self, rows: IntArray, matrix: csr_array, scales: FloatArray) -> None:
        """The connected parts of the core: rows that share corners, directly or through others."""
        n, m = matrix.shape
        if not n:
            return
        links = csr_array(
            (np.ones(matrix.nnz), matrix.indices + n, np.append(matrix.indptr, [matrix.nnz] * m)),
            shape=(n + m, n + m),
        )
        n_parts, part = connected_components(links, directed=False)
        self._corner_part = part[n:].astype(np.int64)
        splits = zip(_grouped(part[:n], n_parts), _grouped(part[n:], n_parts), strict=True)
        for number, (inside, places) in enumerate(splits):
            numbers = self._noisy[rows[inside]]
            part_matrix = csr_array(matrix[inside][:, places])
            lower = self._known.arrays.get(f"factor {number}") if self._known else None
            factor = None if lower is None else lower.T
            self._cores.append(core_of(numbers, part_matrix, scales[rows[inside]], factor))
            self._corner_places.append(places)
            self._core_of[numbers] = number

    def weights(self, query: Sums) -> FloatArray:
        """Weights of least variance that give the query, or come close to it, shape (n_rows,)."""
        right = np.zeros(self._n_public + self._n_peeled + self._n_core)
        known = (query.ids >= 0) & (query.ids < self.n_corners)
        places = self._place[query.ids[known]]
        tracked = places >= 0
        right[places[tracked]] = query.values[known][tracked]
        at_public, rest = right[: self._n_public], right[self._n_public :]
        if self._n_public:
            rest = rest - self._reduced @ at_public
        found = np.zeros(self.n_rows)
        core_right = rest[self._n_peeled :]
        if self._fixed is not None and rest[: self._n_peeled].any():
            fixed = self._fixed.solve(rest[: self._n_peeled])
            found[self._noisy[self._peeled]] = fixed
            core_right = core_right - self._to_core @ fixed
        self._solve_cores(core_right, found)
        if self._n_public:
            left = at_public - self._public_part @ found[self._noisy]
            found[self._public] = left @ self._quotient.mix
        return found

    def _solve_cores(self, right: FloatArray, out: FloatArray) -> None:
        for number in np.unique(self._corner_part[np.flatnonzero(right)]):
            core = self._cores[number]
            out[core.rows] = core.weights(right[self._corner_places[number]])

    def cores_of(self, rows: IntArray) -> list[Core]:
        """The parts of the core that contain these rows."""
        numbers = np.unique(self._core_of[rows])
        return [self._cores[i] for i in numbers if i >= 0]

    def with_public(self, weights: FloatArray) -> FloatArray:
        """Complete weights on noisy rows that sum to zero modulo public rows by public rows.

        Args:
            weights: shape (k, n_rows), 0 on public rows.
        """
        if not self._n_public:
            return weights
        found = weights.copy()
        left = -(self._public_part @ weights[:, self._noisy].T).T
        found[:, self._public] = left @ self._quotient.mix
        return found


def _saved(state: State) -> Peeled:
    arrays = state.arrays
    return Peeled(arrays["rows"], arrays["pivots"], arrays["core"])


def _grouped(parts: npt.NDArray[np.int32], n_parts: int) -> list[IntArray]:
    """The places of each part."""
    ends = np.cumsum(np.bincount(parts, minlength=n_parts))[:-1]
    return np.split(np.argsort(parts, kind="stable"), ends)
