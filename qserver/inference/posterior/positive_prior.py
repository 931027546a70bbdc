"""Posterior of a quantity known to be >= 0, given a noisy estimate of it.

A Bayesian statement, not a frequency: with a flat prior on q >= 0 and e = q + W, the posterior
density of q is that of W at q - e, cut to q >= 0. Its interval is not centred on e. Only for
queries whose weights are all >= 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from qserver.errors import RequirementError
from qserver.inference.law.evaluator import as_log_probability, as_upper_bound, log_one_minus_exp
from qserver.inference.law.laplace_sum import LaplaceSum

_LOG_HALF = math.log(0.5)


@dataclass(frozen=True, slots=True)
class CredibleInterval:
    """A closed interval.

    Attributes:
        low: lower end.
        high: upper end, >= low.
    """

    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class PositivePosterior:
    """Law of q >= 0 given the estimate e = q + W.

    Everything is computed from log tails, so an estimate may be far below 0.

    Args:
        estimate: e, finite, any sign.
        error: law of W, with at least one positive scale.

    Raises:
        RequirementError: `estimate` is not finite or `error` has no noise.
    """

    estimate: float
    error: LaplaceSum

    def __post_init__(self) -> None:
        if not math.isfinite(self.estimate):
            raise RequirementError("estimate", "be finite", self.estimate)
        if self.error.is_exact:
            raise RequirementError("error", "have a scale > 0")

    @property
    def median(self) -> float:
        """q that is exceeded with probability 1/2."""
        return self._exceeded_with(_LOG_HALF)

    def probability(self, low: float, high: float) -> float:
        """P(low <= q <= high) for low <= high, infinities allowed."""
        if not low <= high:
            raise RequirementError("high", "be >= `low`", high)
        low, high = max(low, 0.0), max(high, 0.0)
        a, b = low - self.estimate, high - self.estimate
        total = self._log_survival(-self.estimate)
        if a < 0.0 < b:
            return as_upper_bound(self._across(a, b) / math.exp(total))
        # If both ends are on one side of the mode: measure from the nearer one, by symmetry.
        near, far = (a, b) if a >= 0.0 else (-b, -a)
        log_near, log_far = self._log_survival(near), self._log_survival(far)
        if log_near == log_far:
            return 0.0
        log_share = log_near - total + log_one_minus_exp(log_far - log_near)
        return math.exp(as_log_probability(log_share))

    def interval(self, confidence: float) -> CredibleInterval:
        """Shortest interval of posterior probability `confidence`, in (0, 1).

        The posterior falls off symmetrically from max(e, 0), so the shortest interval is centred
        on e if that lies above 0, and starts at 0 otherwise.
        """
        if not 0.0 < confidence < 1.0:
            raise RequirementError("confidence", "lie in (0, 1)", confidence)
        if self.estimate > 0.0:
            reached = self.error.within(self.estimate)
            wanted = confidence * math.exp(self._log_survival(-self.estimate))
            if wanted < reached:
                half = min(self.error.half_width(wanted), self.estimate)
                return CredibleInterval(low=self.estimate - half, high=self.estimate + half)
        return CredibleInterval(low=0.0, high=self._exceeded_with(math.log1p(-confidence)))

    def _exceeded_with(self, log_probability: float) -> float:
        """q with log P(Q > q) = log_probability, for P(Q > q) P(W > -e) <= 1/2."""
        log_two_sided = log_probability + self._log_survival(-self.estimate) - _LOG_HALF
        if log_two_sided >= 0.0:
            return max(0.0, self.estimate)
        return max(0.0, self.estimate + self.error.half_width_of_tail(log_two_sided))

    def _log_survival(self, x: float) -> float:
        """log P(W > x), W the error law."""
        if x >= 0.0:
            return _LOG_HALF + self.error.log_tail(x)
        return math.log1p(-0.5 * self.error.tail(-x))

    def _across(self, a: float, b: float) -> float:
        return 0.5 * (self.error.within(-a) + self.error.within(b))
