"""The law behind an interval, a probability or a claim. Frozen and public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from qserver.query.asking.method_and_prior import Method, Prior, reading_text
from qserver.records.codec import ALWAYS
from qserver.text import law_text

Law = Literal["posterior", "estimator", "exact"]


@dataclass(frozen=True)
class Statement:
    """The law behind an interval or a probability.

    Args:
        law: `posterior`: given the released answers; `estimator`: of the estimate's error, whatever
            the released answers disagree about; `exact`: there is no noise.
        error: estimate of the numerical error of a probability; intervals are widened by it.
        disagreements: known disagreements among released answers that are counted in.
        method: how probabilities were computed; `auto` where another method was asked for that is
            too rough under the prior.
        step: of the lattice of `convolution`, else None.
        draws: of `monte-carlo`, else None.
        prior: what was held true beforehand; the statement is then Bayesian, not a frequency.
            Null without a prior, and if a paid answer contradicts it.
    """

    law: Law = field(default="posterior", metadata=ALWAYS)
    error: float = field(default=0.0, metadata=ALWAYS)
    disagreements: int = field(default=0, metadata=ALWAYS)
    method: Method = "auto"
    step: float | None = None
    draws: int | None = None
    prior: Prior | None = None

    @property
    def reading(self) -> str:
        """How the posterior was read, as a phrase; '' for the exact law without a prior."""
        return reading_text(self.method, step=self.step, draws=self.draws, prior=self.prior)

    @property
    def law_said(self) -> str:
        """The law with its numerical error, as a phrase; '' where nothing disagrees."""
        return law_text(self.law, error=self.error, disagreements=self.disagreements)


EXACT = Statement("exact")
OF_ESTIMATOR = Statement("estimator")
OF_POSTERIOR = Statement("posterior")


def joined(parts: Sequence[Statement]) -> Statement:
    """The joint law of these parts: the posterior if each is known by its own."""
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
            together, given what released answers disagree about, or of their joint normal law).
        attained: for `posterior` the chance that intervals of the asked lengths hold at once; None
            for the others.
    """

    confidence: float
    method: JointMethod
    attained: float | None = None


@dataclass(frozen=True)
class ClaimStatus:
    """A dataset's claim, and how well it can be known now.

    Args:
        query: the query, in the form of a question over HTTP.
        width: width of the interval, in the query's unit.
        p: largest allowed probability of knowing that the query lies in an interval of this width.
        known: bound on that probability now.
    """

    name: str
    query: Mapping[str, Any]
    width: float
    p: float
    known: float


@dataclass(frozen=True)
class WantedError:
    """How far off a count of a wanted marginal is expected to be once its tables are bought.

    Args:
        attributes: their names.
        deviation: standard deviation of a count, in records: noise of all tables, and the assumed
            error of pairs on a wider marginal that no table holds.
        as_wanted: the same if every wanted marginal itself was bought, for the same price.
        tables: places, in the plan, of the tables that hold it; empty if other tables tell it.
    """

    attributes: tuple[str, ...]
    n_cells: int
    deviation: float
    as_wanted: float
    tables: tuple[int, ...]
