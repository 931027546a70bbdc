"""Saddle points of the tail integrand on a fixed grid: crossings of the axis and first guesses.

Everything is in units of the largest scale. K = log M is evaluated on grouped scales. So these
values only guide a choice or start an iteration; no answer is taken from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, expit

from qserver.inference.law.moments import FloatArray, Moments

# s = expit(t): fine around the middle, reaching 1 - s = 1e-16 for the deepest tails.
_LOGITS = np.concatenate([np.linspace(-14.0, 8.0, 56), np.linspace(8.5, 36.5, 29)])
_S = expit(_LOGITS)
_SQRT_2 = 2.0**0.5
_ONE_MINUS_S = expit(-_LOGITS)


@dataclass(frozen=True, slots=True)
class Crossing:
    """A point s of (0, 1) and its distance to 1, both in full precision."""

    s: float
    one_minus_s: float


@dataclass(frozen=True, slots=True, eq=False)
class SaddleGrid:
    """Derivatives of K on a grid of s in (0, 1).

    Attributes:
        log_slope: log(s K'(s)), shape (g,), increasing.
        half_widths: h = K'(s), shape (g,), increasing.
        log_tails: saddle-point estimate of log P(W > h) there, shape (g,), decreasing.
    """

    log_slope: FloatArray
    half_widths: FloatArray
    log_tails: FloatArray

    @classmethod
    def of(cls, moments: Moments) -> SaddleGrid:
        """Grid of `moments`; O(48) operations a point, however many scales there are."""
        squares = moments.group_squares[:, None]
        # 1 - c^2 s^2 = (1 - c^2) + c^2 (1 - s)(1 + s)
        factors = (1.0 - squares) + squares * (_ONE_MINUS_S * (1.0 + _S))
        ratio = squares / factors
        cumulant = -(moments.group_sizes @ np.log(factors))
        slope = 2.0 * _S * (moments.group_sizes @ ratio)
        curvature = 2.0 * (moments.group_sizes @ (ratio + 2.0 * np.square(ratio * _S)))
        spread = _S * np.sqrt(curvature)
        # exp(x^2 / 2) P(N > x) as one function: two separate factors cancel for large x.
        log_tails = cumulant - _S * slope + np.log(0.5 * erfcx(spread / _SQRT_2))
        return cls(log_slope=np.log(_S * slope), half_widths=slope, log_tails=log_tails)

    def crossing(self, half_width: float) -> Crossing:
        """Minimum over (0, 1) of K(s) - s h - log s, to a few per cent of its distances."""
        # s K'(s) / (1 + s h) increases with s and is 1 at the minimum.
        excess = self.log_slope - np.log1p(_S * half_width)
        logit = float(np.interp(0.0, excess, _LOGITS))
        return Crossing(s=float(expit(logit)), one_minus_s=float(expit(-logit)))

    def half_width(self, log_tail: float) -> float:
        """Half-width whose one-sided log tail is about `log_tail` <= log(1/2)."""
        last = float(self.log_tails[-1])
        if log_tail < last:  # beyond the grid the tail falls like exp(-h)
            return float(self.half_widths[-1]) + (last - log_tail)
        return float(np.interp(-log_tail, -self.log_tails, self.half_widths))
