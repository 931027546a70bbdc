"""Many dependent rows: what all of them disagree about, for every question that they bear on.

Some of the rows are a basis of all. Each other row is a combination of these, so its error follows
from theirs and from the released answers. Which rows they are, and the normal factors in place of
those of their errors, depend on no question: they are found once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr, solve_triangular
from scipy.sparse import csr_array

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.given.known_sums import MOST_FREE, Reduced, with_free
from qserver.inference.given.normal import NormalLaw
from qserver.inference.given.sites import normal_law

_RANK = 1e-11
_ZERO = 1e-12


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Rows with noise, modulo public rows.

    Args:
        ids: measurement ids, shape (n,).
        matrix: the rows by corner, shape (n, m); row i is `units[i]` times what was measured.
        answers: of these rows, less what public rows have in them, shape (n,).
        scales: Laplace scales of what was measured, > 0, shape (n,).
        units: shape (n,).
        counts: of each error how many Laplace variables it is the sum of, shape (n,);
            all 1 where it is left out.
    """

    ids: npt.NDArray[np.int64]
    matrix: csr_array
    answers: FloatArray
    scales: FloatArray
    units: FloatArray
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not len(self.counts):
            object.__setattr__(self, "counts", np.ones(len(self.ids)))


class ManyRows:
    """What rows disagree about. Thread-safe: what two threads find at once is the same."""

    def __init__(self, rows: NoisyRows) -> None:
        self._rows = rows
        self.ids = frozenset(rows.ids.tolist())

    @cached_property
    def work(self) -> int:
        """About how many steps finding a basis takes."""
        n, m = len(self.ids), len(np.unique(self._rows.matrix.indices))
        return n * m * min(n, m)

    @cached_property
    def _solved(self) -> tuple[Places, FloatArray, FloatArray]:
        """The rows, those of the basis first; values and mixing of the others as in `Reduced`."""
        rows = self._rows
        sizes = rows.scales * rows.units
        work = _on_independent_corners(rows.matrix) / sizes[:, None]
        # Rows of least noise come first: the others then follow with small factors.
        _, upper, order = qr(work.T, mode="economic", pivoting=True)
        rank = work.shape[1]
        mixing = solve_triangular(upper[:rank, :rank], upper[:rank, rank:]).T
        mixing[np.abs(mixing) < _ZERO] = 0.0
        answers = (rows.answers / sizes)[order]
        values = answers[rank:] - mixing @ answers[:rank]
        return order.astype(np.intp), values, np.asarray(mixing)

    @cached_property
    def _all(self) -> Reduced:
        """The errors of all rows, of which W has none."""
        order, values, mixing = self._solved
        nothing = np.zeros(0)
        return Reduced(nothing, np.zeros(len(order)), values, mixing, nothing, self._counts)

    @cached_property
    def _normal(self) -> NormalLaw:
        return normal_law(self._all)

    @property
    def _counts(self) -> FloatArray:
        return self._rows.counts[self._solved[0]]

    def along(self, weights: Sequence[Mapping[int, float]]) -> Reduced:
        """The law of errors W by weights on these rows, each by measurement id."""
        order, values, mixing = self._solved
        ids, scales = self._rows.ids, self._rows.scales
        full = np.array([[of.get(i, 0.0) for i in ids.tolist()] for of in weights]) * scales
        basis, others = np.split(full[:, order], [mixing.shape[1]], axis=1)
        on_basis = np.concatenate([basis + others @ mixing, np.zeros_like(others)], axis=1)
        shift, nothing = others @ values, np.zeros((len(full), 0))
        return Reduced(shift, on_basis, values, mixing, nothing, self._counts, self._normal)


@dataclass(frozen=True, eq=False)
class ManySums:
    """One error W or several together, given all that many rows disagree about.

    Args:
        weights: on these rows by measurement id, of each W.
        free: weights of further, independent errors in each W, in records, shape (m, l).
        counts: of each further error how many Laplace variables it is the sum of, shape (l,).
    """

    rows: ManyRows
    weights: Sequence[Mapping[int, float]]
    free: FloatArray
    counts: FloatArray

    def reduced(self, *, most_free: int = MOST_FREE) -> Reduced:
        """The law of W, as of `KnownSums`; of one by arrays without the first axis."""
        along = self.rows.along(self.weights)
        found = with_free(along, self.free, self.counts, most_free=most_free)
        return found if len(self.weights) > 1 else found.along(np.ones(1))


def _on_independent_corners(matrix: csr_array) -> FloatArray:
    """The rows on as few corners as tell them apart, shape (n, rank).

    What rows give which others is the same on these. It depends on no noise.
    """
    used = np.unique(matrix.indices)
    dense = np.asarray(matrix[:, used].todense())
    sizes = np.linalg.norm(dense, axis=1)
    # Public rows give such a row: its error is known.
    sizes[sizes == 0.0] = 1.0
    upper, order = qr(dense / sizes[:, None], mode="r", pivoting=True)[0:2]
    diagonal = np.abs(np.diag(upper))
    rank = int(np.count_nonzero(diagonal > _RANK * diagonal.max(initial=1e-300)))
    return np.asarray(dense[:, np.sort(order[:rank])])
