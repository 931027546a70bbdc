"""Dependent rows: errors of which some sums are known.

Rows that depend on each other disagree in public: a count of everybody and the counts of two halves
never add up exactly. Such a disagreement is a sum of errors, and it is known to everybody. So the
errors of dependent rows are independent Laplace variables given some of their sums. A row may also
be the sum of several cells of a table. Its error is then a sum of Laplace variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr, solve_triangular
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from qserver.inference.arrays import FloatArray

Places = npt.NDArray[np.intp]

_RANK = 1e-10
_ZERO = 1e-10
_MOST_FREE = 100
"""Most independent errors that keep their law; beyond these the smallest become a normal one."""


@dataclass(frozen=True, eq=False)
class KnownSums:
    """An error W = sum_i weights_i u_i, with u_i independent, given sums @ u = values.

    Error u_i is the sum of `counts[i]` independent Lap(1), over the root of that count.

    Args:
        weights: of each error in W, in records, shape (n,).
        sums: the known sums' weights, shape (k, n), of any rank.
        values: the known sums, shape (k,).
        counts: shape (n,); all 1 where it is left out.
    """

    weights: FloatArray
    sums: FloatArray
    values: FloatArray
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not len(self.counts):
            object.__setattr__(self, "counts", np.ones(len(self.weights)))

    @classmethod
    def nothing(cls) -> KnownSums:
        """No error, and no sums."""
        return cls(np.zeros(0), np.zeros((0, 0)), np.zeros(0))

    def with_independent(self, weights: FloatArray, counts: FloatArray | None = None) -> KnownSums:
        """The error with further ones that are in no sum; their weights are in records."""
        counts = np.ones(len(weights)) if counts is None else counts
        sums = np.pad(self.sums, ((0, 0), (0, len(weights))))
        all_counts = np.append(self.counts, counts)
        return KnownSums(np.append(self.weights, weights), sums, self.values, all_counts)


@dataclass(frozen=True, eq=False)
class Reduced:
    """The same law with only what bears on it.

    W = shift + sum_i weights_i u_i + sum_j rest_j v_j. The first r errors are the basis. The others
    follow from it: u[r:] = values + mixing @ u[:r], and have weight 0.

    Args:
        shift: the part of W that is known, in records.
        weights: shape (n,), in records.
        values: shape (k,).
        mixing: shape (k, r), with n = r + k.
        rest: further weights of independent errors in W, each of them small, shape (l,).
        counts: of each error how many Laplace variables it is the sum of, shape (n,).
    """

    shift: float
    weights: FloatArray
    values: FloatArray
    mixing: FloatArray
    rest: FloatArray
    counts: FloatArray

    @property
    def n_disagreements(self) -> int:
        """k, the number of known sums that bear on W."""
        return len(self.values)

    @property
    def sums(self) -> FloatArray:
        """The known sums' weights, shape (k, n): sums @ u = values."""
        return np.hstack([-self.mixing, np.eye(len(self.values))])


def reduced(known: KnownSums) -> Reduced:
    """The law of W given the sums, without the errors that are independent of W."""
    inside = np.asarray(known.sums.any(axis=0))
    free = known.weights[~inside]
    counts = known.counts[~inside]
    found = _solved(known, inside)
    order = np.argsort(-np.abs(free), kind="stable")
    large, small = order[:_MOST_FREE], order[_MOST_FREE:]
    n_free, n_basis = len(large), found.mixing.shape[1]
    mixing = np.pad(found.mixing, ((0, 0), (0, n_free)))
    weights = np.insert(found.weights, n_basis, free[large])
    all_counts = np.insert(found.counts, n_basis, counts[large])
    return replace(found, weights=weights, mixing=mixing, rest=free[small], counts=all_counts)


def _solved(known: KnownSums, inside: npt.NDArray[np.bool_]) -> Reduced:
    """Errors that are in some sum, each, parted in a basis and those that follow from it."""
    all_weights, sums, values = known.weights[inside], known.sums[:, inside], known.values
    if not len(values):
        nothing = np.zeros(0)
        return Reduced(0.0, nothing, nothing, np.zeros((0, 0)), nothing, nothing)
    left, upper, order = qr(sums, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(upper))
    k = int(np.count_nonzero(sizes > _RANK * sizes.max(initial=1e-300)))
    mixing = -solve_triangular(upper[:k, :k], upper[:k, k:])
    given = solve_triangular(upper[:k, :k], (left.T @ values)[:k])
    mixing[np.abs(mixing) < _ZERO] = 0.0
    dependent, basis = order[:k], order[k:]
    weights = all_weights[basis] + mixing.T @ all_weights[dependent]
    weights[np.abs(weights) < _ZERO * np.abs(all_weights).max(initial=0.0)] = 0.0
    rows, columns = _reached(mixing, weights)
    counts = known.counts[inside]
    return Reduced(
        float(all_weights[dependent] @ given),
        np.append(weights[columns], np.zeros(len(rows))),
        given[rows],
        mixing[np.ix_(rows, columns)],
        np.zeros(0),
        np.append(counts[basis][columns], counts[dependent][rows]),
    )


def _reached(mixing: FloatArray, weights: FloatArray) -> tuple[Places, Places]:
    """The dependent and the basis errors that share sums with an error of W."""
    k, r = mixing.shape
    rows, columns = np.nonzero(mixing)
    links = csr_array((np.ones(len(rows)), (rows, k + columns)), shape=(k + r, k + r))
    _, part = connected_components(links, directed=False)
    used = np.isin(part, part[k:][weights != 0.0])
    return np.flatnonzero(used[:k]), np.flatnonzero(used[k:])
