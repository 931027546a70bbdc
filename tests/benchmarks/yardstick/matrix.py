"""The best strategy matrix that a local search with restarts finds, on small domains.

A strategy A measures each of its rows with Laplace noise of scale 1; rows have any weights, of
either sign. Under add-remove it costs max_j sum_i abs(A_ij), its dearest cell. A question w is
answered by the combination x of least variance 2 |x|^2 among those with A' x = w. The search is for

    least  max_j sum_i abs(A_ij)  such that  2 w' (A'A)^-1 w <= tau_w  for every question,

where tau_w = (half-width / (stretch_w z))^2 and z is the normal ratio, as in the planner's fits.
This is not convex. Every start is followed by L-BFGS on logarithms, with greatest values smoothed
by p-norms whose power rises. Then stretches are set by the exact law of each error, and the search
goes on from there. The price is that of the exact law: all rows are raised together until every
interval is as short as asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import ndtri

from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.planning.purchase import Purchase
from qserver.query.question import Question
from qserver.records.charge import NANO
from tests.benchmarks.workloads import Segments

Floats = npt.NDArray[np.float64]
_POWERS = (8.0, 32.0, 128.0, 512.0)
_ROUNDINGS = (1e-2, 1e-3, 1e-4, 1e-5)
_RIDGE = 1e-9
_FEW_STEPS, _STEPS = 30, 150
_FOLLOWED = 2
_CALIBRATIONS = 2
_NOTHING = 1e-4
_UNMET = 1e-6


@dataclass(frozen=True)
class Asked:
    """Questions on the cells of a small domain.

    Args:
        queries: weights, shape (questions, cells).
        half_widths: that each must have, shape (questions,).
        confidences: of each, shape (questions,).
    """

    queries: Floats
    half_widths: Floats
    confidences: Floats

    @classmethod
    def of(cls, questions: Sequence[Question], cells: Segments) -> Asked:
        """These questions; half-widths are those of their rows."""
        return cls(
            np.array([cells.dense(q.row.row) for q in questions]),
            np.array([q.roomy_half_width for q in questions]),
            np.array([q.confidence for q in questions]),
        )

    @property
    def variances(self) -> Floats:
        """The variance of a normal error that just meets each question, shape (questions,)."""
        return np.asarray(np.square(self.half_widths / ndtri(0.5 + self.confidences / 2)))


def exact_price(strategy: Floats, asked: Asked) -> float:
    """The price at which this strategy, scaled, meets every question; infinite where it cannot."""
    ratios = _stretched_half_widths(strategy, asked) / asked.half_widths
    return float(np.abs(strategy).sum(axis=0).max() * ratios.max())


def best_matrix(asked: Asked, starts: Sequence[Floats]) -> float:
    """The least price found from these starts, none dearer than the starts themselves.

    All are followed a little, and the best of them to the end.
    """
    tried = [_least(start, asked.queries, asked.variances, steps=_FEW_STEPS) for start in starts]
    prices = [exact_price(strategy, asked) for strategy in tried]
    ended = [_descended(asked, tried[i]) for i in np.argsort(prices)[:_FOLLOWED]]
    return min(*ended, *prices, *(exact_price(start, asked) for start in starts))


def usual_starts(asked: Asked) -> list[Floats]:
    """Cells; questions with cells; hierarchies of two, four and eight; Haar wavelets."""
    n = asked.queries.shape[1]
    weights = np.sqrt(asked.variances.min() / asked.variances)[:, None]
    rows = np.unique(weights * asked.queries, axis=0)
    # As many rows as cells stand for the questions, or all of them where they are fewer.
    chosen = rows[:: max(1, len(rows) // n)]
    found = [np.eye(n), np.vstack([chosen, np.eye(n)])]
    found += [hierarchy(n, branching) for branching in (2, 4, 8) if branching < n]
    return [*found, _haar(n)]


def strategy_of(purchase: Purchase, cells: Segments) -> Floats:
    """The rows of a purchase and the cells of its tables, each times its alpha."""
    rows = [(r.row, r.alpha_nano) for r in purchase.rows]
    for table in purchase.tables:
        rows += [(table.partition.row(i), table.alpha_nano) for i in range(table.partition.n_cells)]
    return np.array([cells.dense(row) * alpha_nano / NANO for row, alpha_nano in rows])


def hierarchy(n: int, branching: int) -> Floats:
    """All nodes of a tree over the cells, each level with the same weight."""
    rows, size = list[Floats](), 1
    while size < n:
        parts = np.arange(n) // size
        rows.append(np.equal(parts[None, :], np.arange(parts[-1] + 1)[:, None]).astype(float))
        size *= branching
    return np.vstack([*rows, np.ones((1, n))])


def _haar(n: int) -> Floats:
    rows, stack = [np.ones(n)], [(0, n)]
    while stack:
        low, high = stack.pop()
        if high - low > 1:
            middle, row = (low + high) // 2, np.zeros(n)
            row[low:middle], row[middle:high] = 1.0, -1.0
            rows.append(row)
            stack += [(low, middle), (middle, high)]
    return np.array(rows)


def _descended(asked: Asked, start: Floats) -> float:
    """The exact price from one start."""
    best, strategy = exact_price(start, asked), start
    stretches = np.ones(len(asked.half_widths))
    for _ in range(_CALIBRATIONS):
        variances = asked.variances / np.square(stretches)
        strategy = _least(strategy, asked.queries, variances, steps=_STEPS)
        found = min(exact_price(s, asked) for s in (strategy, _pruned(strategy)))
        best = min(best, found)
        spread = _variances(strategy, asked.queries)
        widths = _stretched_half_widths(strategy, asked)
        if not np.isfinite(widths).all():
            break
        stretches = widths / (np.sqrt(spread) * ndtri(0.5 + asked.confidences / 2))
    return best


def _least(start: Floats, queries: Floats, variances: Floats, *, steps: int) -> Floats:
    """The strategy that the descent reaches, scaled to a greatest column sum of 1."""
    strategy = np.asarray(start / np.abs(start).sum(axis=0).max())
    # Rows at zero have no slope of their own.
    strategy = strategy + 1e-3 * np.random.default_rng(1).normal(size=strategy.shape) / len(start)
    solve: Any = minimize
    for power, rounding in zip(_POWERS, _ROUNDINGS, strict=True):
        scaled, corner = queries / np.sqrt(variances)[:, None], rounding * np.abs(strategy).mean()
        problem = _Smooth(scaled, power, float(corner), start.shape)
        found: Any = solve(
            problem.value,
            strategy.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxcor": 20},
        )
        strategy = np.asarray(found.x).reshape(start.shape)
        strategy = np.asarray(strategy / np.abs(strategy).sum(axis=0).max())
    return strategy


@dataclass(frozen=True)
class _Smooth:
    """The logarithm of price and of greatest use, by p-norms of this power.

    Args:
        queries: weights over the root of the variance that the question may have.
        corner: in place of abs(a) stands the root of a^2 + corner^2.
    """

    queries: Floats
    power: float
    corner: float
    shape: tuple[int, ...]

    def value(self, flat: Floats) -> tuple[float, Floats]:
        """log(greatest column sum) + log(greatest use) / 2, and its slope."""
        a = flat.reshape(self.shape)
        size = np.hypot(a, self.corner)
        columns, by_column = _log_norm(size.sum(axis=0), self.power)
        inverse = _inverse(a)
        left = self.queries @ inverse
        uses, by_use = _log_norm(2.0 * np.einsum("ij,ij->i", left, self.queries), self.power)
        slope = by_column * (a / size) - 2.0 * a @ (left.T @ (by_use[:, None] * left))
        return columns + uses / 2.0, np.asarray(slope).ravel()


def _log_norm(values: Floats, power: float) -> tuple[float, Floats]:
    """log of the p-norm, and its slope by each value."""
    most = float(values.max())
    powers = (values / most) ** power
    total = float(powers.sum())
    return np.log(most) + np.log(total) / power, powers / (total * values)


def _inverse(strategy: Floats) -> Floats:
    gram = strategy.T @ strategy
    gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram)
    return np.asarray(np.linalg.inv(gram))


def _combinations(strategy: Floats, queries: Floats) -> Floats:
    """Weights of least variance on the strategy's rows, shape (rows, questions)."""
    found = np.asarray(np.linalg.lstsq(strategy.T, queries.T, rcond=1e-10)[0])
    missed = np.abs(strategy.T @ found - queries.T).max(axis=0)
    found[:, missed > _UNMET * np.abs(queries).max()] = np.inf
    return found


def _variances(strategy: Floats, queries: Floats) -> Floats:
    return np.asarray(2.0 * np.square(_combinations(strategy, queries)).sum(axis=0))


def _stretched_half_widths(strategy: Floats, asked: Asked) -> Floats:
    """Each question's half-width by the exact law of its error, shape (questions,)."""
    found = np.abs(_combinations(strategy, asked.queries)).T
    if not np.isfinite(found).all():
        return np.full(len(found), np.inf)
    pairs = zip(found, asked.confidences, strict=True)
    return np.array([LaplaceSum(w[w > 1e-9 * w.max()]).half_width(c) for w, c in pairs])


def _pruned(strategy: Floats) -> Floats:
    """The strategy without entries that are next to nothing."""
    kept = np.where(np.abs(strategy) < _NOTHING * np.abs(strategy).max(), 0.0, strategy)
    return np.asarray(kept[np.abs(kept).sum(axis=1) > 0.0])
