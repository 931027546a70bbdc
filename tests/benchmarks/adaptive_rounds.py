"""Marginals chosen and measured round by round: what the fixed choice is compared with.

Each round measures a marginal that the estimate so far gets badly wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from qserver.models.marginals.estimate import AUTO_CELLS, Estimate, Oracle, Warm, estimate
from qserver.models.marginals.fit.measurement import NoisyMarginal
from qserver.models.marginals.graph.layout import FloatArray, Scope
from qserver.models.marginals.graph.scopes import distinct


class Source(Protocol):
    """Where adaptive rounds get private facts from; it pays for each and adds the noise itself."""

    def choose(self, estimates: Mapping[Scope, FloatArray], *, alpha: float) -> Scope:
        """A marginal that its estimate, in records, gets badly wrong: exponential mechanism."""
        ...

    def measure(self, scope: Scope, *, alpha: float) -> NoisyMarginal:
        """The marginal with Laplace noise of scale 1 / alpha."""
        ...


@dataclass(frozen=True)
class Round:
    """What one adaptive round measured, and the estimate after it."""

    scope: Scope
    estimate: Estimate


def adaptive_rounds(
    sizes: Sequence[int],
    workload: Sequence[Scope],
    source: Source,
    *,
    n: int,
    alpha: float,
    oracle: Oracle = "auto",
    total: float | None = None,
    max_cells: int = AUTO_CELLS,
) -> Iterator[Round]:
    """Rounds of choosing and measuring, each for half of `alpha`; none is measured twice.

    References:
        Hardt, Ligett and McSherry (2012); whole marginals as in McKenna et al. (2021).
    """
    left = list(distinct(workload))
    first = source.measure(left[0], alpha=alpha)
    left = left[1:]
    measured = [first]
    warm: Warm | None = None
    for _ in range(n):
        found = estimate(
            sizes, measured, oracle=oracle, total=total, max_cells=max_cells, warm=warm
        )
        warm = found.warm
        yield Round(measured[-1].scope, found)
        if not left:
            return
        estimates = {s: found.total * found.distribution.marginal(s).ravel() for s in left}
        scope = source.choose(estimates, alpha=alpha / 2)
        left.remove(scope)
        measured.append(source.measure(scope, alpha=alpha / 2))
