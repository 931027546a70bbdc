"""What guesses at a secret bit prove about epsilon.

Two neighbouring datasets, one of them chosen by a fair coin. Under epsilon-DP, whatever was
released, the odds of either are at most exp(epsilon): so of any guesses, each made or withheld by
looking at what was released, every one is right with probability at most 1 / (1 + exp(-epsilon)),
given those before it. Too many right guesses refute epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

ERROR = 1e-6
"""Chance that the lower bound lies above an epsilon that is kept."""


@dataclass(frozen=True)
class Guesses:
    """Guesses that were made and those that were right."""

    n: int
    n_right: int

    @property
    def epsilon_at_least(self) -> float:
        """Lower confidence bound of the realised epsilon, after Clopper and Pearson (1934)."""
        if self.n_right == 0:
            return 0.0
        share = float(stats.beta.ppf(ERROR, self.n_right, self.n - self.n_right + 1))
        return max(0.0, math.log(share / (1 - share)))

    @property
    def epsilon_estimate(self) -> float:
        """The epsilon at which as many would be right on average; infinite if all are."""
        n_wrong = self.n - self.n_right
        if n_wrong == 0:
            return math.inf
        return math.log(self.n_right / n_wrong) if self.n_right else -math.inf
