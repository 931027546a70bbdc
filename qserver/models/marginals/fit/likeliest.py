"""The distribution of most entropy near tables of least loss: a maximum-likelihood fit.

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
from typing import TYPE_CHECKING

import numpy as np

from qserver.models.marginals.graph.junction_tree import JunctionTree
from qserver.models.marginals.graph.layout import FloatArray

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

_ROUNDS = 25
_MEMORY = 25
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
            options={"maxiter": _ROUNDS, "maxcor": _MEMORY, "gtol": 0.0, "ftol": 0.0},
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
