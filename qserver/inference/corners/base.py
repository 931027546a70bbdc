"""The rows of a history, factored once: peeled rows, then the connected parts of the core."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from qserver.inference.arrays import FloatArray
from qserver.inference.corners.core import Core, core_of
from qserver.inference.corners.peeling import Peeled, peeled
from qserver.inference.corners.quotient import Quotient
from qserver.inference.corners.row_matrix import Sums
from qserver.inference.corners.vectors import IntArray
from qserver.records.state import State


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
        """What spares another base of the same rows the peeling and the dense factors."""
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
        """The parts of the core in which these rows are."""
        numbers = np.unique(self._core_of[rows])
        return [self._cores[i] for i in numbers if i >= 0]

    def with_public(self, weights: FloatArray) -> FloatArray:
        """Weights on noisy rows that give nothing modulo public rows, completed by public rows.

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
