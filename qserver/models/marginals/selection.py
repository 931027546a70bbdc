"""Selection: which marginals to measure, and how exactly, for a workload of marginals.

The choice minimises the expected squared error of the workload in closed form. A measured table
informs every component (interaction) inside its scope. The precisions of a component add up over
tables, and a marginal's error is the sum over its components. No data is needed.

A wide table, a view, holds many wanted marginals. One that is added up from r cells has r times the
noise's variance, but k tables have 1 / k of the loss each, and the variance goes by its square. So
the wanted marginals are covered by few views, and covers of views of many widths are compared.
Under Gaussian noise the variance goes by the loss itself, and views gain little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from scipy import sparse

from qserver.errors import InputError
from qserver.models.marginals.graph.layout import FloatArray, Scope, distinct, parts
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

BoolArray = npt.NDArray[np.bool_]
Cover = tuple[Scope, ...]

_LEAST_SHARE = 1e-3
"""Least share of a measured table, as a part of the largest share."""

_WIDEST = 1 << 13
"""Most cells of a view, unless a wanted marginal has more."""

_STARTS = 4
"""Places in the order of wanted marginals where the cover of a width may begin."""

_SEARCHED = 3
"""Covers, the best at equal shares, of which the shares are searched for."""

_GAIN = 0.9
"""Views must bring the error to this part.

Views of Adult's triples that were expected to err by .91 erred by 1.08: most cells of wide values
are rare, and no count is below 0.
"""

_MOST_FREE = 10.0
"""Degrees of freedom of an interaction beyond which it is not taken to miss more."""

_APART = 0.1
_GOLDEN = 0.618033988749895


@dataclass(frozen=True)
class MarginalChoice:
    """Marginals to measure; the shares of the loss add up to one.

    Args:
        error: expected squared error of all cells of the workload at a loss of one, in records
            squared. It is in inverse proportion to the square of the loss, or to a loss in rho.
    """

    scopes: tuple[Scope, ...]
    shares: FloatArray
    error: float


def best_choice(
    sizes: Sequence[int],
    workload: Sequence[Scope],
    *,
    candidates: Sequence[Scope] | None = None,
    known: Mapping[Scope, float] = MappingProxyType({}),
    law: NoiseLaw = LAPLACE,
) -> MarginalChoice:
    """Shares of the loss with nearly the least expected squared error for the workload.

    Args:
        workload: the wanted marginals; every cell is equally important.
        candidates: marginals that may be measured; by default the workload and all parts of it.
        known: charges of marginals measured before, in parts of the loss to be spent. A new share
            of the same marginal is added to it.
        law: of the noise.

    Raises:
        InputError: the candidates do not cover the workload.
    """
    wanted = distinct(workload)
    offered = tuple(_closure(wanted) if candidates is None else dict.fromkeys(candidates))
    task = _task(sizes, wanted, offered, known, law)
    if not task.is_answered:
        raise InputError("candidates", "hold every marginal of the workload")
    starts = [
        np.array([1.0 if s in wanted else 0.05 for s in offered]),
        np.array([task.degrees(s) for s in offered]),
    ]
    # Equal shares of similar tables can be a saddle point, so the search starts a little apart.
    apart = 1.0 + _APART * (np.arange(len(offered)) * _GOLDEN % 1.0)
    found = min((task.search(start * apart) for start in starts), key=task.error)
    kept = found >= _LEAST_SHARE * found.max()
    shares = np.where(kept, found, 0.0)
    if not np.isfinite(task.error(shares)):
        kept, shares = found > 0, found
    shares = shares / shares.sum()
    chosen = tuple(s for s, k in zip(offered, kept, strict=True) if k)
    return MarginalChoice(chosen, shares[kept], task.error(shares))


def _closure(wanted: Sequence[Scope]) -> list[Scope]:
    return sorted({part for scope in wanted for part in parts(scope)})


def _task(
    sizes: Sequence[int],
    wanted: Sequence[Scope],
    offered: Sequence[Scope],
    known: Mapping[Scope, float],
    law: NoiseLaw,
) -> _WorkloadError:
    """The error of some marginals; those that were measured and are not offered inform as well."""
    all_scopes = (*offered, *(s for s in known if s not in set(offered)))
    task = _WorkloadError(tuple(sizes), wanted, _closure(wanted), all_scopes, len(offered), law)
    task.known += [known.get(s, 0.0) for s in all_scopes]
    return task


def expected_errors(
    sizes: Sequence[int],
    workload: Sequence[Scope],
    alphas: Mapping[Scope, float],
    *,
    missed: float,
    law: NoiseLaw = LAPLACE,
) -> FloatArray:
    """Standard deviation of a count of each wanted marginal, in records, shape (workload,).

    Args:
        workload: distinct.
        alphas: charges of the measured marginals. The deviation is that of their least squares:
            where no count may be below 0, errors are mostly smaller. Infinite where none holds a
            pair.
        missed: mean absolute error of all cells together, in records, by an interaction of three
            attributes or more that none holds, for each of its first degrees of freedom.
        law: of the noise.
    """
    return _task(sizes, workload, (), alphas, law).deviations(missed)


def best_views(
    sizes: Sequence[int],
    workload: Sequence[Scope],
    *,
    candidates: Sequence[Scope],
    known: Mapping[Scope, float] = MappingProxyType({}),
    law: NoiseLaw = LAPLACE,
) -> MarginalChoice:
    """The best of some candidates, or views where these err clearly less; see `best_choice`."""
    wanted = distinct(workload)
    own = best_choice(sizes, wanted, candidates=candidates, known=known, law=law)
    covers = {c: _task(sizes, wanted, c, known, law).evenly() for c in _covers(sizes, wanted)}
    nearest = sorted(covers, key=lambda c: (covers[c], c))[:_SEARCHED]
    found = [best_choice(sizes, wanted, candidates=c, known=known, law=law) for c in nearest]
    best = min(found, key=lambda one: one.error, default=own)
    return best if best.error < _GAIN**2 * own.error else own


def _covers(sizes: Sequence[int], wanted: Sequence[Scope]) -> list[Cover]:
    """Views of each width that hold every wanted marginal, the fewest that were found."""
    held = np.zeros((len(wanted), len(sizes)), dtype=bool)
    for i, scope in enumerate(wanted):
        held[i, list(scope)] = True
    starts = sorted({len(wanted) * i // _STARTS for i in range(_STARTS)})
    found, most = list[Cover](), 4
    while most <= _WIDEST:
        covers = [_cover(np.roll(held, -start, axis=0), sizes, most) for start in starts]
        found.append(min(covers, key=len))
        most *= 2
    return [cover for cover in dict.fromkeys(found) if set(cover) != set(wanted)]


def _cover(left: BoolArray, sizes: Sequence[int], most: int) -> Cover:
    """Views of at most so many cells that hold every wanted marginal, greedily.

    Args:
        left: the attributes of each marginal, shape (n, d).
    """
    found = list[Scope]()
    while len(left):
        view = _view(left, np.asarray(sizes), most)
        found.append(tuple(np.flatnonzero(view).tolist()))
        left = left[(left & ~view).any(axis=1)]
    return tuple(sorted(found))


def _view(left: BoolArray, sizes: npt.NDArray[np.int64], most: int) -> BoolArray:
    """The first marginal, with attributes that bring the most others into it for their size."""
    view: BoolArray = left[0].copy()
    logs = np.log(np.maximum(sizes, 2))
    cells, missing = float(sizes[view].prod()), (left & ~view).sum(axis=1)
    while True:
        brought = (left[missing == 1] & ~view).sum(axis=0)
        worth = np.where(cells * sizes <= most, brought / logs, 0.0)
        best = int(worth.argmax())
        if not worth[best]:
            return view
        view[best] = True
        cells *= float(sizes[best])
        missing -= left[:, best]


class _WorkloadError:
    """Expected squared error of a workload as a function of the shares."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        wanted: Sequence[Scope],
        closure: Sequence[Scope],
        offered: Sequence[Scope],
        n_offered: int,
        law: NoiseLaw,
    ) -> None:
        self._sizes, self._n_offered, self._law = sizes, n_offered, law
        self.known: FloatArray = np.zeros(len(offered))
        cells = np.array([self._cells(s) for s in closure])
        inside, held = _inside(wanted, closure), _inside(offered, closure)
        per_wanted = 1.0 / np.array([self._cells(w) for w in wanted])
        degrees = np.array([self.degrees(s) for s in closure])
        self._degrees = degrees
        self._is_wide = np.array([len(s) > 2 for s in closure])
        self._shared = sparse.diags_array(np.square(per_wanted)) @ inside
        self._weights = cells * degrees
        self._cost = (inside.T @ per_wanted) * self._weights
        # Laplace noise of scale b has variance 2 b^2.
        halves = 0.5 / np.array([self._cells(t) for t in offered])
        self._gain = sparse.diags_array(halves) @ held @ sparse.diags_array(cells)
        self.is_answered = bool((held[:n_offered].sum(axis=0) > 0).all())

    def degrees(self, scope: Scope) -> float:
        """Dimension of the component of a scope."""
        return float(prod(self._sizes[a] - 1 for a in scope))

    def error(self, shares: FloatArray) -> float:
        """Expected squared error at these shares of the candidates."""
        precision = self._gain.T @ self._law.information(self._alphas(shares))
        with np.errstate(divide="ignore"):
            return float((self._cost / precision).sum())

    def evenly(self) -> float:
        """Expected squared error at equal shares of the candidates."""
        return self.error(np.full(self._n_offered, 1.0 / self._n_offered))

    def deviations(self, missed: float) -> FloatArray:
        """Standard deviation of a cell of each wanted marginal, from all measurements."""
        with np.errstate(divide="ignore"):
            variances = self._weights / (self._gain.T @ self._law.information(self.known))
        lost = np.isinf(variances) & self._is_wide
        free = np.minimum(self._degrees[lost], _MOST_FREE)
        variances[lost] = np.pi / 2 * np.square(missed * free)
        return np.asarray(np.sqrt(self._shared @ variances))

    def search(self, start: FloatArray) -> FloatArray:
        """Shares near the start where no small change helps: logarithms, normalised."""

        def objective(logs: FloatArray) -> tuple[float, FloatArray]:
            shares = np.exp(logs - logs.max())
            shares /= shares.sum()
            alphas = self._alphas(shares)
            precision = self._gain.T @ self._law.information(alphas)
            error = float((self._cost / precision).sum())
            slope = self._gain @ (-self._cost / np.square(precision))
            slope = slope * self._law.information_slope(alphas)
            slope = slope[: self._n_offered] * shares
            return float(np.log(error)), (slope - shares * slope.sum()) / error

        logs = np.log(np.maximum(start, 1e-3))
        from scipy.optimize import minimize  # loads long, and not at a start

        found = minimize(objective, logs, jac=True, method="L-BFGS-B", options={"maxiter": 500})
        shares = np.exp(found.x - found.x.max())
        return np.asarray(shares / shares.sum())

    def _alphas(self, shares: FloatArray) -> FloatArray:
        found = self.known.copy()
        found[: self._n_offered] += shares
        return found

    def _cells(self, scope: Scope) -> float:
        return float(prod(self._sizes[a] for a in scope))


def _inside(scopes: Sequence[Scope], closure: Sequence[Scope]) -> sparse.csr_array:
    """1 for each part of the closure inside each scope, shape (scopes, closure)."""
    place = {part: i for i, part in enumerate(closure)}
    found = [[place[p] for p in parts(scope) if p in place] for scope in scopes]
    starts = np.cumsum([0, *map(len, found)])
    columns = np.fromiter(chain.from_iterable(found), np.intp, int(starts[-1]))
    return sparse.csr_array((np.ones(len(columns)), columns, starts), (len(scopes), len(closure)))
