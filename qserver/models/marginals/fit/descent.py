"""Fits of a distribution: entropic descent with any oracle for marginals, and the likeliest one.

Mirror descent linearises the loss and needs a step length. Here each stage minimises the loss
itself plus epsilon times the divergence from the stage before (a proximal step). The dual of a
stage is smooth in one number per released answer, and one call of the oracle gives its value and
gradient. So a quasi-Newton search with a line search solves it. Its variables are scaled by the
dual's curvature, p (1 - p) / epsilon + 1 / w per answer: rare and common cells differ by many
orders of magnitude, and without scaling the search stops far from a stage's minimum. Epsilon
shrinks from stage to stage. The limit is the minimiser of most entropy.

The distribution of most entropy near tables of least loss: a maximum-likelihood fit.

Among all distributions with the same marginals the one of most entropy is a product of potentials.
Potentials that maximise theta . target - log Z(theta) have the target's marginals. The function is
concave, and one call of the junction tree gives its value and gradient to a quasi-Newton search.
The search runs for some rounds at a time. Its variables are scaled by the curvature, p (1 - p) per
cell, which changes by orders of magnitude if cells go to zero.

Many cells do go to zero. This makes plain searches slow, since the potentials of such cells have no
finite optimum. But the slopes of the loss at the optimum, taken as costs, are least and equal
exactly on cells that may be positive. So between rounds every cell is multiplied by
exp(-cost / scale). This drives the other cells to zero and leaves the ratios of the rest. The scale
starts at the noise and halves from time to time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from qserver.models.marginals.fit.observations import Observations
from qserver.models.marginals.graph.junction_tree import Beliefs, JunctionTree
from qserver.models.marginals.graph.layout import FloatArray, Layout

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

_FIRST_EPSILON = 1e-3
# A stage is idle if it gains less than this part of the allowed gap; most idle stages in a row.
_IDLE = 0.01
_MOST_IDLE = 6
_SHRINK = 4.0
_GROWTH = 4.0
_STAGE_ROUNDS = 80
# How often a stage that stopped short of its minimum is continued before epsilon grows.
_MOST_CONTINUED = 3
_LEAST_CURVATURE = 1e-3
_MEMORY = 20
_PASSES = 400


class Oracle(Protocol):
    """Gives tables of total one that maximise theta . tau plus an entropy over a polytope."""

    @property
    def layout(self) -> Layout:
        """The layout of the tables and of the log-potentials."""
        ...

    def run(self, theta: FloatArray, *, tolerance: float, max_passes: int) -> Beliefs:
        """Tables that agree within the tolerance, or those after `max_passes` passes."""
        ...

    def lower_bound(self, costs: FloatArray) -> float | None:
        """A lower bound of costs . tau over the polytope; None if the oracle has none."""
        ...


@dataclass(frozen=True)
class Descent:
    """The result of a descent.

    Args:
        tables: flat, total one each, in the order of the oracle's layout.
        value: loss there.
        gap: at most this much above the least loss; None if the oracle gives no bound.
        inconsistency: largest difference between tables that should agree.
        calls: calls of the oracle.
    """

    tables: FloatArray
    value: float
    gap: float | None
    inconsistency: float
    calls: int


_INCONSISTENCY = 1e-6
"""Largest difference between tables that should agree."""


def descend(
    oracle: Oracle,
    observations: Observations,
    *,
    gap: float,
    max_calls: int = 2_000,
) -> Descent:
    """Tables of nearly the least loss.

    Args:
        gap: stop when the loss is proven to be at most this much above its least value; without a
            bound, when a stage lowers it by less than this.
        max_calls: stop after this many calls of the oracle, once a stage has lowered the loss.
    """
    search = _StageSearch(oracle, observations, _INCONSISTENCY)
    while (search.calls < max_calls or not search.has_gained) and search.n_idle < _MOST_IDLE:
        if search.advance(gap):
            break
    # Call again: exact oracles keep their last result.
    beliefs = search.call(search.theta)
    if beliefs.inconsistency > _INCONSISTENCY:
        # More passes with the same potentials bring the tables into agreement.
        beliefs = oracle.run(search.theta, tolerance=_INCONSISTENCY, max_passes=100 * _PASSES)
    return Descent(
        tables=beliefs.tables,
        value=observations.value(beliefs.tables),
        gap=search.gap,
        inconsistency=beliefs.inconsistency,
        calls=search.calls,
    )


class _StageSearch:
    """The state of a descent: potentials, slopes of the last stage, its loss and gap."""

    def __init__(self, oracle: Oracle, observations: Observations, tolerance: float) -> None:
        self._oracle, self._observations, self._tolerance = oracle, observations, tolerance
        self.theta = np.zeros(oracle.layout.n_cells)
        self._slopes = np.zeros(len(observations.targets))
        self._epsilon = _FIRST_EPSILON
        self._bound: float | None = None
        # With a smaller epsilon potentials would become too large for floats.
        self._least = min(observations.unit**2, _FIRST_EPSILON)
        self.gap: float | None = None
        self.calls = self.n_idle = self._n_continued = 0
        self.has_gained = False
        tables = self.call(self.theta).tables
        self._predicted, self._value = observations.predicted(tables), observations.value(tables)

    def advance(self, gap: float) -> bool:
        """Do one stage, kept if it lowers the loss; returns whether the gap is small enough."""
        seen = self._observations
        slopes = self.stage(self.theta, self._slopes, self._epsilon)
        ahead = self.theta - seen.spread(slopes) / self._epsilon
        beliefs = self.call(ahead)
        value = seen.value(beliefs.tables)
        proven = self._prove(beliefs.tables, slopes)
        if value > self._value + _IDLE * gap:
            self._go_on(slopes)
        else:
            gained = max(self._value - value, proven)
            self.theta, self._slopes, self._value = ahead, slopes, value
            self._predicted, self._n_continued = seen.predicted(beliefs.tables), 0
            self.has_gained = True
            self._epsilon = max(self._epsilon / _SHRINK, self._least)
            self.n_idle = self.n_idle + 1 if gained <= _IDLE * gap else 0
            if self._bound is None:
                return gained <= gap
        self.gap = None if self._bound is None else max(self._value - self._bound, 0.0)
        return self.gap is not None and self.gap <= gap

    def _prove(self, tables: FloatArray, slopes: FloatArray) -> float:
        """Raise the lower bound by the slopes of any stage; returns by how much it rose."""
        found = _bound(self._oracle, self._observations, tables, slopes)
        if found is None:
            return 0.0
        before, self._bound = self._bound, max(found, found if self._bound is None else self._bound)
        return self._bound - before if before is not None else np.inf

    def _go_on(self, slopes: FloatArray) -> None:
        """Continue a stage that stopped short of its minimum, or make the next one easier."""
        if self._n_continued < _MOST_CONTINUED:
            self._n_continued += 1
            self._slopes = slopes
            return
        self._epsilon *= _GROWTH
        self.n_idle += 1
        self._n_continued = 0

    def call(self, theta: FloatArray) -> Beliefs:
        self.calls += 1
        return self._oracle.run(theta, tolerance=self._tolerance, max_passes=_PASSES)

    def stage(self, theta: FloatArray, slopes: FloatArray, epsilon: float) -> FloatArray:
        """Slopes nu that minimise nu . y + phi*(nu) + epsilon A(theta - K' nu / epsilon)."""
        seen = self._observations
        squares = seen.likelihood == "squares"
        # In units of the noise the least loss is about the number of answers.
        unit = seen.unit**2
        scales = seen.unit * self._scales(epsilon)

        def dual(v: FloatArray) -> tuple[float, FloatArray]:
            nu = scales * v
            beliefs = self.call(theta - seen.spread(nu) / epsilon)
            gradient = seen.targets - seen.predicted(beliefs.tables)
            value = float(nu @ seen.targets) + epsilon * beliefs.log_partition
            if squares:
                scaled = nu / seen.weights
                value, gradient = value + 0.5 * float(nu @ scaled), gradient + scaled
            return value / unit, scales * gradient / unit

        from scipy.optimize import Bounds, minimize  # loads long, and not at a start

        found = minimize(
            dual,
            slopes / scales,
            jac=True,
            method="L-BFGS-B",
            bounds=None if squares else Bounds(-seen.weights / scales, seen.weights / scales),
            options={"maxiter": _STAGE_ROUNDS, "maxcor": _MEMORY, "gtol": 1e-9, "ftol": 1e-13},
        )
        return np.asarray(scales * found.x, dtype=np.float64)

    def _scales(self, epsilon: float) -> FloatArray:
        """Inverse roots of the dual's curvature along each slope, at the last tables."""
        seen = self._observations
        p = np.clip(self._predicted, 0.0, 1.0)
        spread = np.maximum(p * (1.0 - p), _LEAST_CURVATURE * seen.unit)
        own = 1.0 / seen.weights if seen.likelihood == "squares" else _LEAST_CURVATURE / epsilon
        return np.asarray(1.0 / np.sqrt(spread / epsilon + own))


def _bound(
    oracle: Oracle, seen: Observations, tables: FloatArray, slopes: FloatArray
) -> float | None:
    """The dual at the slopes, or at the slopes of the loss itself if that is greater."""
    found = []
    own = seen.weights * (seen.predicted(tables) - seen.targets)
    for nu in [slopes, own] if seen.likelihood == "squares" else [slopes]:
        least = oracle.lower_bound(seen.spread(nu))
        if least is None:
            return None
        conjugate = 0.5 * float(nu @ (nu / seen.weights)) if seen.likelihood == "squares" else 0.0
        found.append(least - float(nu @ seen.targets) - conjugate)
    return max(found)


_ROUNDS = 25
_MEMORY_OF_LIKELIEST = 25
# Least curvature of a cell; it falls tenfold at a time, to a part of the square of the noise.
_FIRST_CURVATURE = 1e-3
_LAST_CURVATURE = 1e-2
# The least scale of the costs, as a part of the noise.
_LEAST_SCALE = 1e-2


@dataclass(frozen=True)
class Aim:
    """The goal of a search; flat arrays are in the order of the tree's layout.

    Args:
        tables: agreeing tables of nearly the least loss.
        costs: slopes of the loss there, or of a dual that proves it.
        unit: size of the noise in a proportion, > 0.
        loss: the loss of tables.
        goal: a loss that is small enough; above the least loss.
    """

    tables: FloatArray
    costs: FloatArray
    unit: float
    loss: Callable[[FloatArray], float]
    goal: float


@dataclass(frozen=True)
class Likeliest:
    """Potentials, their tables and loss.

    Args:
        theta: log-potentials, flat.
        tables: tables of these potentials, flat.
        loss: loss of the tables.
        calls: calls of the tree.
    """

    theta: FloatArray
    tables: FloatArray
    loss: float
    calls: int


def likeliest(tree: JunctionTree, aim: Aim, *, max_calls: int = 1_000) -> Likeliest:
    """The first tables of the search whose loss is small enough, else the best tables.

    Afterwards the tree holds the beliefs of the result.

    Args:
        max_calls: stop after about this many calls of the tree.
    """
    search = _EntropySearch(tree, aim)
    while search.best.loss > aim.goal and search.calls < max_calls:
        search.advance()
    found = search.best
    beliefs = tree.run(found.theta)
    return Likeliest(found.theta, beliefs.tables, found.loss, search.calls + 1)


class _EntropySearch:
    """The state of the search, its best result, and the number of runs."""

    def __init__(self, tree: JunctionTree, aim: Aim) -> None:
        self._tree, self._aim = tree, aim
        self._n, self.calls = 0, 0
        self._theta = np.zeros(len(aim.tables))
        self.best = Likeliest(self._theta, self._theta, np.inf, 0)
        self._called(self._theta)

    def advance(self) -> None:
        """Lower the costly cells, then do some rounds of the search."""
        aim, part = self._aim, 10.0**-self._n
        start = self._theta - aim.costs / (aim.unit * max(0.5**self._n, _LEAST_SCALE))
        tables, _ = self._called(start)
        least = min(_LAST_CURVATURE * aim.unit**2, _FIRST_CURVATURE)
        # By rounding a cell with all of the mass may be above one.
        curvature = np.maximum(tables * (1.0 - tables), 0.0)
        scales = 1.0 / np.sqrt(curvature + max(least, _FIRST_CURVATURE * part))

        def objective(v: FloatArray) -> tuple[float, FloatArray]:
            theta = start + scales * v
            tables, log_partition = self._called(theta)
            value = log_partition - float(theta @ aim.tables)
            return value, scales * (tables - aim.tables)

        def stop(intermediate_result: OptimizeResult) -> None:  # noqa: ARG001
            if self.best.loss <= aim.goal:
                raise StopIteration

        from scipy.optimize import minimize  # loads long, and not at a start

        ended = minimize(
            objective,
            np.zeros(len(start)),
            jac=True,
            method="L-BFGS-B",
            callback=stop,
            options={"maxiter": _ROUNDS, "maxcor": _MEMORY_OF_LIKELIEST, "gtol": 0.0, "ftol": 0.0},
        )
        self._theta = start + scales * ended.x
        self._n += 1

    def _called(self, theta: FloatArray) -> tuple[FloatArray, float]:
        """The tables and the log partition at `theta`."""
        beliefs = self._tree.run(theta)
        self.calls += 1
        loss = self._aim.loss(beliefs.tables)
        if loss < self.best.loss:
            self.best = Likeliest(theta, beliefs.tables, loss, self.calls)
        return beliefs.tables, beliefs.log_partition
