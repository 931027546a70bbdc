"""What an interval or a probability is a statement of. Frozen and public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from qserver.query.asking.reading import Method, Prior

Law = Literal["posterior", "estimator", "exact"]


@dataclass(frozen=True)
class Statement:
    """The law behind an interval or a probability.

    Args:
        law: `posterior`: given the released answers; `estimator`: of the estimate's error, whatever
            the released answers disagree about; `exact`: there is no noise.
        error: bound on the numerical error of a probability; intervals are widened by it.
        disagreements: known disagreements among released answers that are counted in.
        method: how probabilities were computed; `auto` where another method was asked for that is
            too rough under the prior.
        step: of the lattice of `convolution`, else None.
        draws: of `monte-carlo`, else None.
        prior: what was held true beforehand: what is said is then a Bayesian statement, and no
            frequency. None where there was none, and where an answer that was paid for contradicts
            it.
    """

    law: Law = "posterior"
    error: float = 0.0
    disagreements: int = 0
    method: Method = "auto"
    step: float | None = None
    draws: int | None = None
    prior: Prior | None = None


EXACT = Statement("exact")
OF_ESTIMATOR = Statement("estimator")
OF_POSTERIOR = Statement("posterior")


def joined(parts: Sequence[Statement]) -> Statement:
    """The law of what these parts give together: the posterior where each is known by its own."""
    laws = {part.law for part in parts}
    if len(parts) == 1 or laws <= {"exact"}:
        return parts[0] if parts else EXACT
    if "estimator" in laws:
        return OF_ESTIMATOR
    error, most = (max(of) for of in zip(*((p.error, p.disagreements) for p in parts), strict=True))
    return Statement("posterior", error, most)


JointMethod = Literal["exact", "union", "product", "sampled", "posterior"]


@dataclass(frozen=True)
class Simultaneous:
    """The confidence that all intervals of a workload hold at once, certified.

    Args:
        confidence: certified: at least what was asked.
        method: `union` (by the sum of the chances to miss), `product` (by the product of the
            chances to hold), `sampled` (a bound from random draws, with their chance to be wrong
            counted), `exact` (one interval in effect) or `posterior` (by draws of all numbers
            together, given what released answers disagree about).
        attained: for `posterior` the chance that intervals of the asked lengths hold at once; None
            for the others.
    """

    confidence: float
    method: JointMethod
    attained: float | None = None

    def to_plain(self) -> dict[str, Any]:
        """As JSON values; earlier versions had no `attained`."""
        own = {"confidence": self.confidence, "method": self.method}
        return own if self.attained is None else {**own, "attained": self.attained}
