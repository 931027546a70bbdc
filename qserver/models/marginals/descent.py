"""Entropic descent with any oracle for marginals, in implicit steps that need no tuning.

Mirror descent linearises the loss and takes a step of a length that somebody must choose. Here each
stage minimises the loss itself plus epsilon times the divergence from the stage before (a proximal
step). Its dual is smooth in one number per released answer, and one call of the oracle gives its
value and gradient, so a quasi-Newton search with its own line search solves it. Epsilon halves from
stage to stage. Among all minimisers the limit is the one of most entropy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import Bounds, minimize

from qserver.models.marginals.belief import Beliefs
from qserver.models.marginals.layout import FloatArray, Layout
from qserver.models.marginals.observations import Observations

_FIRST_EPSILON = 1e-2
# Stages in a row that gain less than this part of the gap asked for.
_IDLE = 0.01
_MOST_IDLE = 6
_STAGE_ROUNDS = 40
_MEMORY = 20
_PASSES = 400


class Oracle(Protocol):
    """Tables of total one that maximise theta . tau plus an entropy over a polytope."""

    @property
    def layout(self) -> Layout:
        """The tables, and the log-potentials, in order."""
        ...

    def run(self, theta: FloatArray, *, tolerance: float, max_passes: int) -> Beliefs:
        """Tables that agree to within the tolerance, or after so many passes."""
        ...

    def lower_bound(self, costs: FloatArray) -> float | None:
        """At most the least costs . tau over the polytope; None where none is at hand."""
        ...


@dataclass(frozen=True)
class Descent:
    """Where the descent ended.

    Args:
        theta: log-potentials.
        tables: flat, total one each, in the order of the oracle's layout.
        value: loss there.
        gap: at most this much above the least loss; None where the oracle gives no bound.
        inconsistency: largest difference between tables that should agree.
        calls: calls of the oracle.
    """

    theta: FloatArray
    tables: FloatArray
    value: float
    gap: float | None
    inconsistency: float
    calls: int


def descend(
    oracle: Oracle,
    observations: Observations,
    *,
    gap: float,
    inconsistency: float = 1e-6,
    max_calls: int = 2_000,
    start: FloatArray | None = None,
) -> Descent:
    """Tables of nearly the least loss.

    Args:
        gap: stop once the loss is proven to be this near its least value; without a bound, once a
            stage lowers it by less than this.
        inconsistency: how far the tables that are returned may be from agreeing.
        max_calls: stop once the oracle was called so often.
        start: log-potentials to start from; uniform tables if None.
    """
    search = _Search(oracle, observations, inconsistency, start)
    while search.calls < max_calls and search.n_idle < _MOST_IDLE:
        if search.advance(gap):
            break
    # Once more: exact oracles keep what they last computed.
    beliefs = search.call(search.theta)
    if beliefs.inconsistency > inconsistency:
        # At frozen potentials messages still bring the tables into agreement.
        beliefs = oracle.run(search.theta, tolerance=inconsistency, max_passes=100 * _PASSES)
    return Descent(
        theta=search.theta,
        tables=beliefs.tables,
        value=observations.value(beliefs.tables),
        gap=search.gap,
        inconsistency=beliefs.inconsistency,
        calls=search.calls,
    )


class _Search:
    """Where the descent is: potentials, slopes of the last stage, its loss and gap."""

    def __init__(
        self,
        oracle: Oracle,
        observations: Observations,
        tolerance: float,
        start: FloatArray | None,
    ) -> None:
        self._oracle, self._observations, self._tolerance = oracle, observations, tolerance
        self.theta = np.zeros(oracle.layout.n_cells) if start is None else start
        self._slopes = np.zeros(len(observations.targets))
        self._value, self._epsilon = np.inf, _FIRST_EPSILON
        # A smaller epsilon would let potentials grow beyond what floats tell apart.
        self._least = min(observations.unit**2, _FIRST_EPSILON)
        self.gap: float | None = None
        self.calls = self.n_idle = 0

    def advance(self, gap: float) -> bool:
        """One stage, kept if it lowers the loss; whether the loss is near enough its least."""
        seen = self._observations
        slopes = self.stage(self.theta, self._slopes, self._epsilon)
        ahead = self.theta - seen.spread(slopes) / self._epsilon
        beliefs = self.call(ahead)
        value = seen.value(beliefs.tables)
        if value > self._value:
            # The search stopped short of the stage's minimum: a larger epsilon is easier.
            self._epsilon *= 4.0
            self.n_idle += 1
            return False
        gained = self._value - value
        self.theta, self._slopes, self._value = ahead, slopes, value
        self.gap = _gap(self._oracle, seen, beliefs.tables, slopes, value)
        self._epsilon = max(self._epsilon / 2.0, self._least)
        self.n_idle = self.n_idle + 1 if gained <= _IDLE * gap else 0
        return (gained if self.gap is None else self.gap) <= gap

    def call(self, theta: FloatArray) -> Beliefs:
        self.calls += 1
        return self._oracle.run(theta, tolerance=self._tolerance, max_passes=_PASSES)

    def stage(self, theta: FloatArray, slopes: FloatArray, epsilon: float) -> FloatArray:
        """Slopes nu that minimise nu . y + phi*(nu) + epsilon A(theta - K' nu / epsilon)."""
        seen = self._observations
        squares = seen.likelihood == "squares"

        def dual(nu: FloatArray) -> tuple[float, FloatArray]:
            beliefs = self.call(theta - seen.spread(nu) / epsilon)
            gradient = seen.targets - seen.predicted(beliefs.tables)
            value = float(nu @ seen.targets) + epsilon * beliefs.log_partition
            if squares:
                scaled = nu / seen.weights
                return value + 0.5 * float(nu @ scaled), gradient + scaled
            return value, gradient

        found = minimize(
            dual,
            slopes,
            jac=True,
            method="L-BFGS-B",
            bounds=None if squares else Bounds(-seen.weights, seen.weights),
            options={"maxiter": _STAGE_ROUNDS, "maxcor": _MEMORY, "gtol": 1e-9, "ftol": 1e-14},
        )
        return np.asarray(found.x, dtype=np.float64)


def _gap(
    oracle: Oracle, seen: Observations, tables: FloatArray, slopes: FloatArray, value: float
) -> float | None:
    """Loss less the dual at the slopes, or at those of the loss itself where they prove more."""
    found = []
    own = seen.weights * (seen.predicted(tables) - seen.targets)
    for nu in [slopes, own] if seen.likelihood == "squares" else [slopes]:
        least = oracle.lower_bound(seen.spread(nu))
        if least is None:
            return None
        conjugate = 0.5 * float(nu @ (nu / seen.weights)) if seen.likelihood == "squares" else 0.0
        found.append(value - (least - float(nu @ seen.targets) - conjugate))
    return max(min(found), 0.0)
