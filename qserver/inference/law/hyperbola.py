"""The bent contour of the tail integral, and the quadrature step it supports.

T(h) = P(W > h) = (1 / 2 pi i) integral of M(s) exp(-s h) / s ds over
s(w) = p + rho cosh(w + i beta), w real. All singularities are real (0 and +-1/c_i), so the
hyperbola may wrap the positive ones; there the integrand falls fast and the trapezoid rule
converges geometrically (see Weideman and Trefethen 2007 on such contours). Units: largest
scale 1.

Saddle points of the tail integrand on a fixed grid: crossings of the axis and first guesses.

Everything is in units of the largest scale. K = log M is evaluated on grouped scales. So these
values only guide a choice or start an iteration; no answer is taken from them.

Nodes and weights of the contour integral; every quantity of a law is a sum over them.

With w_k = step M(s_k) s'(u_k) / (2 pi i), mirrored nodes counted twice:
T(h) = Re sum w_k exp(-s_k h) / s_k, the density is Re sum w_k exp(-s_k h), and
P(0 < W <= h) = Re sum w_k (1 - exp(-s_k h)) / s_k. Units: largest scale 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import erfcx, expit

from qserver.errors import CapacityError, EvaluationError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.moment_function import ComplexArray, Moments

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


_NEGLIGIBLE: Final = -39.0
_MAX_NODES: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Contour sums at one half-width, all divided by exp(log_unit).

    Attributes:
        log_unit: log of the common factor.
        tail: P(W > h).
        density: density of W at h.
    """

    log_unit: float
    tail: float
    density: float

    @property
    def log_tail(self) -> float:
        """log P(W > h); EvaluationError if the sum is not a positive number."""
        if not self.tail > 0.0:
            raise EvaluationError
        return self.log_unit + math.log(self.tail)


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Trapezoid nodes of one quadrature; valid for half-widths near the one it was chosen for.

    Attributes:
        anchor: the end of (0, 1), 0 or 1, that is nearer to the crossing.
        offsets: s - anchor, shape (m,), exact where s itself would lose digits.
        points: s, shape (m,).
        one_minus_squares: 1 - s^2, shape (m,).
        log_weights: log w, shape (m,).
        quadrature: the rule.
    """

    anchor: float
    offsets: ComplexArray
    points: ComplexArray
    one_minus_squares: ComplexArray
    log_weights: ComplexArray
    quadrature: Quadrature

    @classmethod
    def build(
        cls, moments: Moments, quadrature: Quadrature, *, half_width: float, power: int
    ) -> Nodes:
        """Nodes out to where M exp(-s h) s^power ds no longer matters.

        Args:
            moments: the law.
            quadrature: contour and step.
            half_width: h >= 0 for which the truncation is chosen.
            power: -1 for the tail, 0 for the density too, 1 for derivatives by a scale too.
        """
        start, count = 0, math.ceil(quadrature.reach / quadrature.step) + 2
        nodes = cls._block(moments, quadrature, np.arange(start, count, dtype=np.float64))
        while nodes._last_matters(half_width, power):
            start, count = count, count + 16
            if count > _MAX_NODES:
                raise CapacityError("The contour integral needs too many nodes.")
            more = cls._block(moments, quadrature, np.arange(start, count, dtype=np.float64))
            nodes = nodes._joined(more)
        return nodes

    @classmethod
    def _block(cls, moments: Moments, quadrature: Quadrature, index: FloatArray) -> Nodes:
        hyperbola = quadrature.hyperbola
        u = index * quadrature.step
        along = hyperbola.rho * math.cos(hyperbola.beta)
        across = hyperbola.rho * math.sin(hyperbola.beta)
        sinh = np.sinh(u)
        anchor, vertex = _anchor(hyperbola)
        offsets = np.empty(len(u), dtype=np.complex128)
        offsets.real = vertex + along * 2.0 * np.square(np.sinh(0.5 * u))
        offsets.imag = across * sinh
        points: ComplexArray = anchor + offsets
        squares: ComplexArray = np.square(points)
        one_minus: ComplexArray = -offsets * (1.0 + points) if anchor else 1.0 - squares
        slopes = across * np.cosh(u) - 1j * (along * sinh)  # s' / i
        # The node on the axis stands alone, every other one also for its mirror image.
        shares = np.where(index > 0.0, 2.0, 1.0) * (quadrature.step / (2.0 * math.pi))
        logs = moments.log(squares, one_minus) + np.log(shares * slopes)
        return cls(anchor, offsets, points, one_minus, logs, quadrature)

    def _joined(self, more: Nodes) -> Nodes:
        return Nodes(
            self.anchor,
            np.concatenate([self.offsets, more.offsets]),
            np.concatenate([self.points, more.points]),
            np.concatenate([self.one_minus_squares, more.one_minus_squares]),
            np.concatenate([self.log_weights, more.log_weights]),
            self.quadrature,
        )

    def _last_matters(self, half_width: float, power: int) -> bool:
        sizes = self.log_weights.real - self.offsets.real * half_width
        sizes = sizes + power * np.log(np.abs(self.points))
        return bool(sizes[-1] - sizes.max() > _NEGLIGIBLE)

    @property
    def reach(self) -> float:
        """(n + 1/2) step, the end of the stretch that the nodes stand for."""
        return (len(self.points) - 0.5) * self.quadrature.step

    def terms(self, half_width: float) -> ComplexArray:
        """w_k exp(-s_k h) / exp(log_unit(h)), shape (m,)."""
        logs = self.log_weights - self.offsets * half_width
        result: ComplexArray = np.exp(logs - logs.real.max())
        return result

    def log_unit(self, half_width: float) -> float:
        """log of the factor taken out of `terms`."""
        logs = self.log_weights.real - self.offsets.real * half_width
        return float(logs.max()) - self.anchor * half_width

    def sums(self, half_width: float) -> Sums:
        """Tail and density at h."""
        terms = self.terms(half_width)
        return Sums(
            log_unit=self.log_unit(half_width),
            tail=float((terms / self.points).real.sum()),
            density=float(terms.real.sum()),
        )

    def centre(self, half_width: float) -> Sums:
        """P(0 < W <= h), in `tail`, and the density at h; relative accuracy down to h = 0.

        The nodes must have been built for half-width 0.
        """
        weights = np.exp(self.log_weights)
        growth = -np.expm1(-self.points * half_width)
        return Sums(
            log_unit=0.0,
            tail=float((weights * growth / self.points).real.sum()),
            density=float((weights * (1.0 - growth)).real.sum()),
        )


def _anchor(hyperbola: Hyperbola) -> tuple[float, float]:
    crossing = hyperbola.crossing
    if crossing.s < 0.5:
        return 0.0, crossing.s
    return 1.0, -crossing.one_minus_s
