"""Mirror descent for any smooth convex loss on tables, its step found by trying.

A step is kept if the loss stays below its linearisation plus the divergence over the step length;
the length grows after each success and halves after each failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qserver.models.marginals.fit.descent import Oracle
from qserver.models.marginals.graph.junction_tree import Beliefs
from qserver.models.marginals.graph.layout import FloatArray

_GROWTH = 1.5
_INCONSISTENCY = 1e-6
_PASSES = 200
_SHORTEST = 1e-9


@dataclass(frozen=True)
class LossAt:
    """Value of a loss at some tables, and its gradient there, one per cell."""

    value: float
    gradient: FloatArray


def proximal_descent(
    oracle: Oracle,
    loss: Callable[[FloatArray], LossAt],
    start: FloatArray,
    *,
    max_steps: int,
    progress: float = 1e-6,
) -> Beliefs:
    """Tables of nearly the least loss over the oracle's polytope.

    Args:
        loss: of the tables of the oracle's layout.
        start: log-potentials.
        progress: stop once ten steps together lower the loss by less than this part of it.

    References:
        McKenna et al. (2021), algorithm 1.
    """
    theta, length = start, 1.0
    beliefs = oracle.run(theta, tolerance=_INCONSISTENCY, max_passes=10 * _PASSES)
    here = loss(beliefs.tables)
    values = [here.value]
    for _ in range(max_steps):
        while True:
            ahead = theta - length * here.gradient
            found = oracle.run(ahead, tolerance=_INCONSISTENCY, max_passes=_PASSES)
            there = loss(found.tables)
            linear = float(here.gradient @ (found.tables - beliefs.tables))
            divergence = float((ahead - theta) @ found.tables)
            divergence -= found.log_partition - beliefs.log_partition
            if there.value <= here.value + linear + divergence / length:
                break
            length /= 2.0
            if length < _SHORTEST:
                return beliefs
        theta, beliefs, here = ahead, found, there
        length *= _GROWTH
        values.append(here.value)
        if len(values) > 10 and values[-11] - values[-1] <= progress * abs(values[-1]):
            break
    return oracle.run(theta, tolerance=_INCONSISTENCY, max_passes=100 * _PASSES)
