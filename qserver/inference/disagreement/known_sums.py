"""Dependent rows: errors with known sums.

Rows that depend on each other disagree in public: a count of everybody and the counts of two halves
never add up exactly. Such a disagreement is a sum of errors, and it is known to everybody. So the
errors of dependent rows are independent Laplace variables given some of their sums. A row may also
be the sum of several cells of a table. Its error is then a sum of Laplace variables.

*Normal factors* replace those of the errors, by expectation propagation (Minka 2001).

Given the known sums, the density of the errors is a product of factors exp(-abs(u_i)), or of those
of sums of Laplace variables, each replaced by a normal one, its site. A site is chosen so that the
normal law, with the site put back to the error's own factor, keeps the mean and the variance of
u_i. Without known sums all sites have mean 0 and variance 2, and the normal law is that of least
variance.

*Many dependent rows*: all their disagreements, for every question that they bear on.

Some of the rows are a basis of all. Each other row is a combination of these, so its error follows
from theirs and from the released answers. The choice of the basis and the normal factors depend on
no question: they are found once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr, solve, solve_triangular
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from qserver.inference.arrays import FloatArray, Places
from qserver.inference.disagreement.normal_law_given_sums import (
    LAPLACE_VARIANCE,
    NARROWEST,
    ByBasis,
    BySums,
    Cavity,
    NormalLaw,
    Sites,
    WithFree,
)
from qserver.inference.limits import MOST_FREE

_RANK = 1e-10
_ZERO = 1e-10
_AS_LARGE = 1e-9


@dataclass(frozen=True, eq=False)
class KnownSums:
    """An error W = sum_i weights_i u_i, with u_i independent, given sums @ u = values.

    Error u_i is the sum of `counts[i]` independent Lap(1), over the root of that count.

    Args:
        weights: of each error in W, in records, shape (n,); (m, n) for m errors W together.
        sums: the known sums' weights, shape (k, n), of any rank.
        values: the known sums, shape (k,); of several histories that differ in them alone, (b, k).
        counts: shape (n,); all 1 where it is left out.
        inside: finds the law of the errors in sums, if their rows know it (`ManyRows.along`). The
            other fields then describe the other errors, without sums.
        solved: the errors in sums, in order, if the same sums bear on other questions.
    """

    weights: FloatArray
    sums: FloatArray
    values: FloatArray
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))
    inside: Callable[[], Reduced] | None = None
    solved: SolvedSums | None = None

    def __post_init__(self) -> None:
        if not len(self.counts):
            object.__setattr__(self, "counts", np.ones(self.weights.shape[-1]))

    @property
    def are_none(self) -> bool:
        """Whether no sum is known."""
        return self.inside is None and not len(self.values)

    def reduced(self, *, most_free: int = MOST_FREE) -> Reduced:
        """The law of W given the sums, without errors independent of W.

        Args:
            most_free: most errors outside of all sums that keep their law.
        """
        in_sums = np.asarray(self.sums.any(axis=0))
        found = self._of_sums(in_sums) if self.inside is None else self.inside()
        free, counts = self.weights[..., ~in_sums], self.counts[~in_sums]
        return with_free(found, free, counts, most_free=most_free)

    def _of_sums(self, in_sums: npt.NDArray[np.bool_]) -> Reduced:
        solved = self.solved
        if solved is None:
            solved = SolvedSums(self.sums[:, in_sums], self.values, self.counts[in_sums])
        return solved.along(self.weights[..., in_sums])

    def with_independent(self, weights: FloatArray, counts: FloatArray | None = None) -> KnownSums:
        """Add errors that are in no sum; their weights are in records."""
        counts = np.ones(weights.shape[-1]) if counts is None else counts
        sums = np.pad(self.sums, ((0, 0), (0, weights.shape[-1])))
        all_counts = np.append(self.counts, counts)
        all_weights = np.concatenate([self.weights, weights], axis=-1)
        return replace(self, weights=all_weights, sums=sums, counts=all_counts)


@dataclass(frozen=True, eq=False)
class Reduced:
    """The same law, reduced to the errors that bear on it.

    W = shift + sum_i weights_i u_i + sum_j rest_j v_j. The first r errors are the basis. The others
    follow from it: u[r:] = values + mixing @ u[:r], and have weight 0.

    Args:
        shift: the known part of W, in records; shape (m,) for m errors W together.
        weights: shape (n,), in records; likewise (m, n).
        values: shape (k,); of several histories that differ in them alone, (b, k).
        mixing: shape (k, r), with n = r + k.
        rest: weights of further small independent errors in W, shape (l,); likewise (m, l).
        counts: number of Laplace variables in each error, shape (n,).
        normal: finds the normal law of the errors, if it is that of other questions too.
    """

    shift: FloatArray
    weights: FloatArray
    values: FloatArray
    mixing: FloatArray
    rest: FloatArray
    counts: FloatArray
    normal: Callable[[], NormalLaw] | None = None

    @property
    def n_disagreements(self) -> int:
        """k, the number of known sums that bear on W."""
        return len(self.mixing)

    @property
    def sums(self) -> FloatArray:
        """The known sums' weights, shape (k, n): sums @ u = values."""
        return np.hstack([-self.mixing, np.eye(len(self.mixing))])

    @property
    def is_on_a_line(self) -> bool:
        """Whether all errors follow from one."""
        is_one = self.mixing.shape[1] == 1 and not self.rest.shape[-1]
        return is_one and bool((self.counts == 1.0).all())

    @property
    def of_several(self) -> Reduced:
        """This law with an axis of errors W, added for a single W."""
        return replace(
            self,
            shift=np.atleast_1d(self.shift),
            weights=np.atleast_2d(self.weights),
            rest=np.atleast_2d(self.rest),
        )

    def along(self, direction: FloatArray) -> Reduced:
        """The law of direction @ W, for several errors W."""
        return replace(
            self,
            shift=direction @ self.shift,
            weights=direction @ self.weights,
            rest=direction @ self.rest,
        )


def with_free(
    found: Reduced, free: FloatArray, counts: FloatArray, *, most_free: int = MOST_FREE
) -> Reduced:
    """Add errors to W that are in no sum.

    Args:
        free: their weights in W, in records, shape (l,); (m, l) for m errors W together.
        counts: number of Laplace variables in each error, shape (l,).
        most_free: most of them that keep their law.
    """
    if not free.shape[-1]:
        return found  # with its normal law, and what was found of it
    order = np.argsort(-_sizes(free), kind="stable")
    large, small = order[:most_free], order[most_free:]
    n_free, n_basis = len(large), found.mixing.shape[1]
    weights = np.concatenate(
        [found.weights[..., :n_basis], free[..., large], found.weights[..., n_basis:]], axis=-1
    )
    of_large = counts[large]
    return replace(
        found,
        weights=weights,
        mixing=np.pad(found.mixing, ((0, 0), (0, n_free))),
        rest=free[..., small],
        counts=np.insert(found.counts, n_basis, of_large),
        normal=None if found.normal is None else partial(_with_free, found, of_large),
    )


def _with_free(found: Reduced, counts: FloatArray) -> NormalLaw:
    return WithFree(normal_law(found), found.mixing.shape[1], counts)


@dataclass(frozen=True, eq=False)
class SolvedSums:
    """Known sums of errors, each of which is in one, solved once for all W.

    Thread-safe: concurrent threads find the same result.

    Args:
        sums, values, counts: as of `KnownSums`.
    """

    sums: FloatArray
    values: FloatArray
    counts: FloatArray
    _normal: dict[bytes, NormalLaw] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _split(self) -> tuple[Places, Places, FloatArray, FloatArray]:
        """Errors that follow from a basis, the basis, mixing and values as in `Reduced`."""
        left, upper, order = qr(self.sums, mode="economic", pivoting=True)
        sizes = np.abs(np.diag(upper))
        k = int(np.count_nonzero(sizes > _RANK * sizes.max(initial=1e-300)))
        told = np.empty((k, len(order)))
        told[:, order] = upper[:k]
        dependent, basis = _dependent(told)
        mixing = -np.asarray(solve(told[:, dependent], told[:, basis]))
        given = np.asarray(solve(told[:, dependent], (self.values @ left)[..., :k].T)).T
        mixing[np.abs(mixing) < _ZERO] = 0.0
        return dependent, basis, mixing, given

    @cached_property
    def _parts(self) -> tuple[Places, Places]:
        return _parts(self._split[2])

    def along(self, all_weights: FloatArray) -> Reduced:
        """The law of W by weights of these errors, shape (n,) or (m, n)."""
        several = self.values.shape[:-1]
        if not len(self.sums):
            nothing, shift = np.zeros((*several, 0)), np.zeros((*several, *all_weights.shape[:-1]))
            none = all_weights[..., :0]
            return Reduced(shift, none, nothing, np.zeros((0, 0)), none, np.zeros(0))
        dependent, basis, mixing, given = self._split
        weights = all_weights[..., basis] + all_weights[..., dependent] @ mixing
        weights[np.abs(weights) < _ZERO * np.abs(all_weights).max(initial=0.0)] = 0.0
        rows, columns = _reached(self._parts, _sizes(weights))
        inside = weights[..., columns]
        found = Reduced(
            np.asarray(given @ all_weights[..., dependent].T),
            np.concatenate([inside, np.zeros((*inside.shape[:-1], len(rows)))], axis=-1),
            given[..., rows],
            mixing[np.ix_(rows, columns)],
            weights[..., :0],
            np.append(self.counts[basis][columns], self.counts[dependent][rows]),
        )
        if several or not len(rows):
            return found
        key = rows.tobytes() + columns.tobytes()
        return replace(found, normal=partial(self._normal_law, key, found))

    def _normal_law(self, key: bytes, law: Reduced) -> NormalLaw:
        if key not in self._normal:
            self._normal[key] = normal_law(law)
        return self._normal[key]


def _dependent(sums: FloatArray) -> tuple[Places, Places]:
    """Errors that follow from the others by independent sums, and the others, both in order.

    The split does not depend on the form of the sums: any factorisation of the rows draws the same
    points.

    Args:
        sums: shape (k, n).
    """
    k, n = sums.shape
    rows = qr(sums.T, mode="economic")[0].T
    left, found = np.square(rows).sum(axis=0), np.empty((k, n))
    is_dependent = np.zeros(n, dtype=np.bool_)
    for i in range(k):
        # Of those that are as large but for rounding, the first one.
        place = int(np.flatnonzero(left >= left.max() - _AS_LARGE)[0])
        is_dependent[place] = True
        found[i] = (rows[:, place] @ rows - found[:i, place] @ found[:i]) / np.sqrt(left[place])
        left = np.maximum(left - np.square(found[i]), 0.0)
        left[is_dependent] = -1.0
    return np.flatnonzero(is_dependent), np.flatnonzero(~is_dependent)


def _sizes(weights: FloatArray) -> FloatArray:
    """The largest size of each error's weights, shape (n,)."""
    return np.asarray(np.abs(np.atleast_2d(weights)).max(axis=0, initial=0.0))


def _reached(parts: tuple[Places, Places], weights: FloatArray) -> tuple[Places, Places]:
    """The dependent and the basis errors that share sums with an error of W."""
    dependent, basis = parts
    used = basis[weights != 0.0]
    return np.flatnonzero(np.isin(dependent, used)), np.flatnonzero(np.isin(basis, used))


def _parts(mixing: FloatArray) -> tuple[Places, Places]:
    """A label of each dependent and of each basis error, equal where sums link them."""
    k, r = mixing.shape
    rows, columns = np.nonzero(mixing)
    links = csr_array((np.ones(len(rows)), (rows, k + columns)), shape=(k + r, k + r))
    found = connected_components(links, directed=False)[1].astype(np.intp)
    return found[:k], found[k:]


_SWEEPS = 6
_DAMPING = 0.9


def normal_law(known: Reduced) -> NormalLaw:
    """The normal law of the errors given the known sums alone."""
    if known.normal is not None:
        return known.normal()
    shape = (*known.values.shape[:-1], len(known.counts))
    sites = Sites(np.zeros(shape), np.full(shape, LAPLACE_VARIANCE))
    for _ in range(_SWEEPS if known.n_disagreements else 0):
        sites = _moved(sites, _given(known, sites).cavity)
    return _given(known, sites)


def _given(known: Reduced, sites: Sites) -> NormalLaw:
    """The normal law by the smaller matrix: of the known sums, or of the basis."""
    k, r = known.mixing.shape
    if r < k and known.values.ndim == 1:
        return ByBasis(known.mixing, known.values, sites, known.counts)
    return BySums(known.sums, known.values, sites, known.counts)


def _moved(sites: Sites, cavity: Cavity) -> Sites:
    """Sites that nearly keep the moments of each cavity times the error's density."""
    mean, variance = cavity.with_factors()
    precision = np.maximum(1.0 / variance - 1.0 / cavity.variance, NARROWEST)
    shift = mean / variance - cavity.mean / cavity.variance
    old = 1.0 / sites.variances
    new = old + _DAMPING * (precision - old)
    shifted = sites.means * old + _DAMPING * (shift - sites.means * old)
    return Sites(shifted / new, 1.0 / new)


_RANK_OF_ROWS = 1e-11
_ZERO_OF_ROWS = 1e-12


@dataclass(frozen=True, eq=False)
class ManyRows:
    """Rows with noise, modulo public rows, and their disagreements.

    Thread-safe: concurrent threads find the same result.

    Args:
        ids: measurement ids, shape (n,).
        matrix: the rows by corner, shape (n, m); row i is `units[i]` times what was measured.
        answers: of these rows, minus their public parts, shape (n,).
        scales: Laplace scales of what was measured, > 0, shape (n,).
        units: shape (n,).
        counts: number of Laplace variables in each error, shape (n,).
    """

    ids: npt.NDArray[np.int64]
    matrix: csr_array
    answers: FloatArray
    scales: FloatArray
    units: FloatArray
    counts: FloatArray
    _known: dict[int | None, tuple[Places, Reduced]] = field(
        default_factory=dict, init=False, repr=False
    )

    @cached_property
    def work(self) -> int:
        """Approximate number of steps to find a basis."""
        n, m = len(self.ids), len(np.unique(self.matrix.indices))
        return n * m * min(n, m)

    @cached_property
    def _solved(self) -> tuple[Places, FloatArray, FloatArray]:
        """Rows with the basis first; values and mixing of the others as in `Reduced`."""
        sizes = self.scales * self.units
        work = _on_independent_corners(self.matrix) / sizes[:, None]
        # Rows of least noise come first: the others then follow with small factors.
        _, upper, order = qr(work.T, mode="economic", pivoting=True)
        rank = work.shape[1]
        mixing = solve_triangular(upper[:rank, :rank], upper[:rank, rank:]).T
        mixing[np.abs(mixing) < _ZERO_OF_ROWS] = 0.0
        answers = (self.answers / sizes)[order]
        values = answers[rank:] - mixing @ answers[:rank]
        return order.astype(np.intp), values, np.asarray(mixing)

    @cached_property
    def _parts(self) -> tuple[Places, Places]:
        return _parts(self._solved[2])

    def _part(self, label: int | None) -> tuple[Places, Reduced]:
        """Places of the rows of one label, or of all, in the basis, and their errors' law.

        W has weight 0 on all of these.
        """
        if label not in self._known:
            order, values, mixing = self._solved
            chosen = [np.flatnonzero((one == label) | (label is None)) for one in self._parts]
            dependent, basis = chosen
            counts = self.counts[order[np.append(basis, mixing.shape[1] + dependent)]]
            nothing, found = np.zeros(0), mixing[np.ix_(dependent, basis)]
            law = Reduced(nothing, np.zeros(len(counts)), values[dependent], found, nothing, counts)
            normal = normal_law(law)
            self._known[label] = basis, replace(law, normal=lambda: normal)
        return self._known[label]

    def along(self, weights: Sequence[Mapping[int, float]]) -> Reduced:
        """The law of errors W by weights on these rows, by measurement id.

        For one W the arrays have no first axis. Rows without a link to W are dropped if one label
        has all others.
        """
        order, values, mixing = self._solved
        ids = self.ids.tolist()
        full = np.array([[of.get(i, 0.0) for i in ids] for of in weights]) * self.scales
        basis, others = np.split(full[:, order], [mixing.shape[1]], axis=1)
        on_basis, shift = basis + others @ mixing, others @ values
        labels = set(self._parts[1][on_basis.any(axis=0)].tolist())
        basis_of_part, law = self._part(labels.pop() if len(labels) == 1 else None)
        padded = np.pad(on_basis[:, basis_of_part], ((0, 0), (0, law.n_disagreements)))
        found = replace(law, shift=shift, weights=padded, rest=np.zeros((len(full), 0)))
        return found if len(full) > 1 else found.along(np.ones(1))


@dataclass(frozen=True, eq=False)
class Together:
    """Estimates of m questions, and the sums of errors that bear on them.

    Args:
        estimates: in records, shape (m,).
        allowances: bounds on the errors that lattices and floats add, shape (m,).
        sums: of the m errors.
        is_posterior: whether this is the law given all answers; else it is that of the errors.
    """

    estimates: FloatArray
    allowances: FloatArray
    sums: KnownSums
    is_posterior: bool = True


def _on_independent_corners(matrix: csr_array) -> FloatArray:
    """The rows on a minimal set of corners, shape (n, rank).

    Linear dependence of rows is the same on these, and does not depend on noise.
    """
    used = np.unique(matrix.indices)
    dense = np.asarray(matrix[:, used].todense())
    sizes = np.linalg.norm(dense, axis=1)
    # Public rows give such a row: its error is known.
    sizes[sizes == 0.0] = 1.0
    upper, order = qr(dense / sizes[:, None], mode="r", pivoting=True)[0:2]
    diagonal = np.abs(np.diag(upper))
    rank = int(np.count_nonzero(diagonal > _RANK_OF_ROWS * diagonal.max(initial=1e-300)))
    return np.asarray(dense[:, np.sort(order[:rank])])
