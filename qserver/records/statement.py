"""What an interval or a probability is a statement of. Frozen and public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Law = Literal["posterior", "estimator", "exact"]


@dataclass(frozen=True)
class Statement:
    """The law behind an interval or a probability.

    Args:
        law: `posterior`: given the released answers; `estimator`: of the estimate's error, whatever
            the released answers disagree about; `exact`: there is no noise.
        error: bound on the numerical error of a probability. Intervals are widened by it.
        disagreements: number of known disagreements among released answers that bear on the query
            and are counted in.
    """

    law: Law = "posterior"
    error: float = 0.0
    disagreements: int = 0


EXACT = Statement("exact")
OF_ESTIMATOR = Statement("estimator")
OF_POSTERIOR = Statement("posterior")
