"""The bent contour of the tail integral, and the quadrature step it supports.

T(h) = P(W > h) = (1 / 2 pi i) integral of M(s) exp(-s h) / s ds over
s(w) = p + rho cosh(w + i beta), w real. All singularities are real (0 and +-1/c_i), so the
hyperbola may wrap the positive ones; there the integrand falls fast and the trapezoid rule
converges geometrically (see Weideman and Trefethen 2007 on such contours). Units: largest
scale 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from qserver.inference.law.moments import FloatArray, Moments
from qserver.inference.law.saddle import Crossing

_BEND: Final = 0.8
_DIGITS: Final = 36.7
"""-log of the relative error aimed at: one rounding of a double."""

_TRUNCATE: Final = 39.0
_OUTER: Final = np.array([0.5, 0.7, 0.85, 0.95])
_INNER_NEAR: Final = np.array([0.5, 0.8, 1.2, 1.8, 2.7, 4.0, 6.0, 9.0])
_INNER_FAR: Final = np.array([0.2, 0.4, 0.6, 0.75, 0.85])
_HEIGHTS: Final = np.array(
    [0, 0.35, 0.8, 1.4, 2.1, 3, 4.5, 6.5, 9, 12, 16, 24, 48, 120, 400, 2e3, 1e5, 1e8, 1e12, 1e17]
)


@dataclass(frozen=True, slots=True)
class Hyperbola:
    """s(w) = p + rho cosh(w + i beta) with p + rho = 1, so beta = 0 is the ray from the first pole.

    Attributes:
        crossing: where it meets the real axis.
        rho: distance of the focus from the centre.
        beta: angle, in (0, pi/2).
    """

    crossing: Crossing
    rho: float
    beta: float

    @classmethod
    def through(cls, crossing: Crossing) -> Hyperbola:
        """Hyperbola with cos beta = 0.8 s0 whose vertex is s0 = `crossing`."""
        cosine = _BEND * crossing.s
        return cls(
            crossing=crossing,
            rho=crossing.one_minus_s / (1.0 - cosine),
            beta=math.acos(cosine),
        )

    @property
    def centre(self) -> float:
        """p, the centre, > 0."""
        return (1.0 - _BEND) * self.crossing.s / (1.0 - _BEND * self.crossing.s)

    def log_abs(
        self, moments: Moments, half_width: float, u: FloatArray, angles: FloatArray
    ) -> FloatArray:
        """log abs of the integrand at w = u + i(angle - beta), up to a constant, grouped scales.

        Args:
            moments: the law.
            half_width: h, in units of the largest scale.
            u: shape (m,), >= 0.
            angles: shape (a, 1), in (0, pi/2).

        Returns:
            Shape (a, m).
        """
        cosh, cosine = np.cosh(u), np.cos(angles)
        # Measured from the crossing, so that a large h does not magnify the rounding of s.
        beyond = self.rho * (cosh * cosine - math.cos(self.beta))
        y = self.rho * np.sinh(u) * np.sin(angles)
        x = self.crossing.s + beyond
        speed = np.log(self.rho * self.rho * (np.square(cosh) - np.square(cosine)))
        distance = np.log(np.square(x) + np.square(y))
        decay: FloatArray = 0.5 * (speed - distance) - half_width * beyond
        return moments.grouped_log_abs(x, y) + decay


@dataclass(frozen=True, slots=True)
class Quadrature:
    """Trapezoid rule on a hyperbola.

    Attributes:
        hyperbola: the contour.
        step: distance of neighbouring nodes in u.
        reach: u beyond which the integrand no longer matters; an estimate.
        outer: shift d+ towards the imaginary axis that certifies best; an estimate.
        inner: shift d- towards the poles that certifies best; an estimate.
    """

    hyperbola: Hyperbola
    step: float
    reach: float
    outer: float
    inner: float

    @classmethod
    def choose(
        cls, moments: Moments, hyperbola: Hyperbola, half_width: float, *, narrow: float = 1.0
    ) -> Quadrature:
        """Longest step at which both strips of analyticity give full double precision.

        Args:
            moments: the law.
            hyperbola: the contour.
            half_width: h >= 0, in units of the largest scale.
            narrow: factor in (0, 1] on the step, for a second try.
        """
        beta = hyperbola.beta
        room = 0.5 * math.pi - beta
        outer = room * _OUTER
        inner = np.concatenate([np.minimum(room * _INNER_NEAR, 0.85 * beta), beta * _INNER_FAR])
        angles = np.concatenate([[beta], beta + outer, beta - inner])
        u = np.arcsinh(_HEIGHTS * (min(hyperbola.crossing.s, hyperbola.rho) / hyperbola.rho))
        logs = hyperbola.log_abs(moments, half_width, u, angles[:, None])
        # The integrand at the vertex of the contour sets the size of the answer.
        peaks = logs.max(axis=1) - logs[0, 0]
        shifts = np.concatenate([outer, inner])
        steps = 2.0 * math.pi * shifts / (_DIGITS + np.maximum(peaks[1:], 0.0))
        n = len(outer)
        step = narrow * float(min(steps[:n].max(), steps[n:].max()))
        gains = 2.0 * math.pi * shifts / step - peaks[1:]
        return cls(
            hyperbola=hyperbola,
            step=step,
            reach=_reach(u, logs[0] - logs[0, 0]),
            outer=float(outer[gains[:n].argmax()]),
            inner=float(inner[gains[n:].argmax()]),
        )


def _reach(u: FloatArray, fall: FloatArray) -> float:
    """Least u, by linear interpolation on the grid, at which the integrand fell by exp(-39)."""
    below = np.flatnonzero(fall < -_TRUNCATE)
    if len(below) == 0:
        return float(u[-1])
    i = int(below[0])
    share = (fall[i - 1] + _TRUNCATE) / (fall[i - 1] - fall[i])
    return float(u[i - 1] + share * (u[i] - u[i - 1]))
