"""The error of an estimate under Gaussian noise: W = sum_i N(0, s_i^2), which is normal again.

It has the interface of `LaplaceSum`; `sum_of` chooses between the two by the law of the noise.

*The lattice.* Let K have P(K = j) proportional to f(j) = exp(-(j/s)^2 / 2), s >= 1, and X be normal
with deviation s. Drawn by the quantile of one uniform variable, abs(K - X) <= 1. For j >= 0: f
falls, so sum over i > j of f(i) is at most its integral from j on; and Z = sum of f >=
s sqrt(2 pi), as all terms of Poisson's sum are positive. Hence P(K > j) <= P(X > j). In the other
direction f(i) - (integral of f from i to i + 1) >= t f(i) with t = s^-2 / 8, so the sum is at least
its integral from j + 1 on over 1 - t, while Z / (s sqrt(2 pi)) <= 1 + 3 exp(-2 pi^2 s^2), which is
less than 1 / (1 - t). Hence P(K > j) >= P(X > j + 1). So X in (j, j + 1] goes with K in {j, j + 1},
and X < 0 by symmetry. QED.

*The law.* Let y = H x + e with e normal, and let W = A e be the error of the weights of least
variance. What answers disagree about, d = D e with D H = 0, has covariance 0 with W, since
otherwise A + t D would have less variance. Both are normal together, so W does not depend on d:
given all answers the posterior of every question under a flat prior is normal around least squares.
Nothing is searched for: the shortest interval is that of least variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from qserver.errors import RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.evaluator import CertifiedProbability
from qserver.inference.law.laplace_sum import LaplaceSum
from qserver.records.privacy.noise_law import NoiseLaw

_LN2: Final = math.log(2.0)
_ERROR: Final = 1e-13
"""Far more than `ndtr` errs by; it has some ulps."""


@dataclass(frozen=True, eq=False)
class NormalSum:
    """Distribution of W = sum_i N(0, s_i^2), independent.

    Args:
        scales: standard deviations s_i >= 0, shape (n,); n = 0 means W = 0.
    """

    scales: FloatArray

    @property
    def is_exact(self) -> bool:
        """Whether there is no noise at all: W = 0."""
        return self.deviation == 0.0

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of W; RequirementError if it is not finite."""
        found = float(np.linalg.norm(self.scales))
        if not math.isfinite(found):
            raise RequirementError("scales", "be finite")
        return found

    @property
    def variance(self) -> float:
        """sum s_i^2."""
        return self.deviation**2

    def within(self, half_width: float) -> float:
        """P(abs(W) <= h) for h >= 0."""
        return 1.0 - self.tail(half_width)

    def tail(self, half_width: float) -> float:
        """P(abs(W) > h) for h >= 0."""
        return 0.0 if self.is_exact else 2.0 * float(ndtr(-half_width / self.deviation))

    def log_tail(self, half_width: float) -> float:
        """log P(abs(W) > h) for h >= 0; finite far beyond where `tail` is 0."""
        if self.is_exact:
            return -math.inf
        return min(0.0, _LN2 + float(log_ndtr(-half_width / self.deviation)))

    def cdf(self, x: float) -> float:
        """P(W <= x) for any x but NaN."""
        if self.is_exact:
            return float(x >= 0.0)
        return float(ndtr(x / self.deviation))

    def density(self, x: float) -> float:
        """Density of W at x; without noise it is infinite at 0 and 0 elsewhere."""
        if self.is_exact:
            return math.inf if x == 0.0 else 0.0
        z = x / self.deviation
        return math.exp(-0.5 * z * z) / (self.deviation * math.sqrt(2.0 * math.pi))

    def certify(self, half_width: float) -> CertifiedProbability:
        """P(abs(W) <= h) for h >= 0 with a bound on its error."""
        return CertifiedProbability(self.within(half_width), 0.0 if self.is_exact else _ERROR)

    def half_width(self, confidence: float) -> float:
        """h with P(abs(W) <= h) = confidence, in (0, 1)."""
        return self.half_width_of_tail(math.log1p(-confidence))

    def half_width_of_tail(self, log_tail: float) -> float:
        """h with log P(abs(W) > h) = log_tail, finite and < 0; for confidences very near 1."""
        if not -math.inf < log_tail < 0.0:
            raise RequirementError("log_tail", "be finite and < 0", log_tail)
        return max(0.0, -self.deviation * float(ndtri_exp(log_tail - _LN2)))


def sum_of(scales: FloatArray, law: NoiseLaw) -> LaplaceSum | NormalSum:
    """The law of a sum of independent errors of this noise.

    Args:
        scales: of each error, shape (n,), as `NoiseLaw.scale` gives them.
    """
    return LaplaceSum(scales) if law.power == 1 else NormalSum(scales)
