"""The law of a Laplace sum by a contour integral; the default evaluator.

T(h) = P(W > h) is an integral over a hyperbola around the positive poles of M (hyperbola.py),
summed at some 30 to 150 nodes (up to 250 for tiny h), with a bound on the error on request.

Measured with one BLAS thread, medians in ms, at confidence 0.95, the worst of four kinds of
scales (lognormal, geometric, uniform, one dominant among many small):

| scales | prepare | within | half-width | certify |
|---|---|---|---|---|
| 2 | 0.04 | 0.10 | 0.22 | 0.31 |
| 10 | 0.04 | 0.11 | 0.26 | 0.35 |
| 100 | 0.07 | 0.18 | 0.35 | 0.62 |
| 1000 | 0.11 | 0.30 | 0.64 | 3.6 |
| 5000 | 0.32 | 0.24 | 0.52 | 1.1 |

A bound on the error of the trapezoid sum for the tail.

With G(w) the integrand, d+ and d- two shifts inside the strip where G is analytic, and
U = (n + 1/2) step, the residue theorem on the rectangle [-U, U] x [-d-, d+] gives

    error <= N+ / (e^(2 pi d+ / step) - 1) + N- / (e^(2 pi d- / step) - 1)
             + 2 integral over the cap of abs(G(U + iv)) / (1 + e^(2 pi abs(v) / step)) dv
             + the part of the contour beyond U,

N+- the integrals of abs(G) along the long sides. Each is bounded cell by cell with the extremes
of every factor over the cell, so the bound is rigorous in exact arithmetic. Rounding of the sum
itself is added as an estimate. Units: largest scale 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from qserver.errors import EvaluationError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.evaluator import (
    CertifiedProbability,
    EqualScales,
    as_log_probability,
    as_probability,
    log_one_minus_exp,
)
from qserver.inference.law.hyperbola import Hyperbola, Nodes, Quadrature, SaddleGrid
from qserver.inference.law.moment_function import N_POWERS, Moments

_SMALL: Final = 0.16
"""Largest c^2 abs(s)^2 of a factor bounded through power sums."""

_LINE_CELLS: Final = 24
_CAP_CELLS: Final = 24
_NEAR: Final = 2.0
_ROUNDING: Final = 2.0**-53
_SLACK: Final = 1.0 + 1e-9
"""Covers the rounding of the bounds themselves."""

_HUGE: Final = 700.0


@dataclass(frozen=True, slots=True, eq=False)
class _CellBounds:
    """Bounds of z = s^2 on cells, arrays of shape (m,).

    Attributes:
        real: at least Re z.
        norm: at most abs(z)^2.
        n_chunks: number of chunks of factors that are too large for power sums.
    """

    real: FloatArray
    norm: FloatArray
    n_chunks: int


def tail_error(moments: Moments, nodes: Nodes, half_width: float) -> float:
    """Bound on the error of `nodes.sums(half_width)` as a value of P(W > h).

    Args:
        moments: the law.
        nodes: nodes built for `half_width`.
        half_width: h >= 0, in units of the largest scale.

    Returns:
        Discretisation and truncation (rigorous but for rounding) plus an estimate of rounding;
        infinite when a factor cannot be bounded on these cells.
    """
    rule = nodes.quadrature
    beta = rule.hyperbola.beta
    total = _cap(moments, nodes, half_width)
    for angle, shift in ((beta + rule.outer, rule.outer), (beta - rule.inner, rule.inner)):
        exponent = 2.0 * math.pi * shift / rule.step
        log_side = _log_side(moments, rule.hyperbola, half_width, angle=angle, reach=nodes.reach)
        total += _exp(log_side - exponent - math.log(-math.expm1(-exponent)))
    total = total / (2.0 * math.pi) + _truncation(moments, nodes, half_width)
    return total * _SLACK + _rounding(moments, nodes, half_width)


def _log_side(
    moments: Moments, hyperbola: Hyperbola, half_width: float, *, angle: float, reach: float
) -> float:
    """log of a bound on 2 pi N, the integral of abs(G) over -U <= u <= U at one angle."""
    near = min(_NEAR, 0.5 * reach)
    u = np.concatenate(
        [np.linspace(0.0, near, _LINE_CELLS + 1), np.linspace(near, reach, _LINE_CELLS + 1)[1:]]
    )
    rho, cosine = hyperbola.rho, math.cos(angle)
    cosh = np.cosh(u)
    x = hyperbola.centre + rho * cosine * cosh
    squares = np.square(x) + np.square(rho * math.sin(angle) * np.sinh(u))
    speed = rho * rho * (np.square(cosh) - cosine * cosine)
    cells = _CellBounds(
        real=_highest_real(hyperbola, cosine, cosh),
        norm=np.square(squares[:-1]),
        n_chunks=moments.n_large_chunks(float(squares[-1]), small=_SMALL),
    )
    logs = 0.5 * np.log(speed[1:] / squares[:-1]) - half_width * x[:-1]
    logs += _small_log(moments, cells)
    logs += _large_log_on_side(moments, cells.n_chunks, hyperbola, angle, cosh)
    return float(np.logaddexp.reduce(logs + np.log(2.0 * np.diff(u))))


def _cap(moments: Moments, nodes: Nodes, half_width: float) -> float:
    """Bound on 2 pi times both short sides of the rectangle, the residue kernel included."""
    rule = nodes.quadrature
    rho, beta = rule.hyperbola.rho, rule.hyperbola.beta
    shifts = np.concatenate(
        [
            np.linspace(-rule.inner, 0.0, _CAP_CELLS + 1),
            np.linspace(0.0, rule.outer, _CAP_CELLS + 1)[1:],
        ]
    )
    cosh, cosine = math.cosh(nodes.reach), np.cos(beta + shifts)
    # As the angle grows Re s, abs(s), Re s^2 and abs(1 + cs) fall, abs(1 - cs) grows.
    x = rule.hyperbola.centre + rho * cosh * cosine
    y = rho * math.sinh(nodes.reach) * np.sin(beta + shifts)
    squares = np.square(x) + np.square(y)
    speed = rho * rho * (cosh * cosh - np.square(cosine))
    cells = _CellBounds(
        real=(np.square(x) - np.square(y))[:-1],
        norm=np.square(squares[1:]),
        n_chunks=moments.n_large_chunks(float(squares[0]), small=_SMALL),
    )
    logs = 0.5 * np.log(speed[1:] / squares[1:]) - half_width * x[1:]
    logs += _small_log(moments, cells)
    logs += _large_log_on_cap(moments, cells, rule.hyperbola, cosh, cosine)
    nearest = np.minimum(np.abs(shifts[:-1]), np.abs(shifts[1:]))
    logs -= np.logaddexp(0.0, 2.0 * math.pi / rule.step * nearest)
    return 2.0 * _exp(float(np.logaddexp.reduce(logs + np.log(np.diff(shifts)))))


def _truncation(moments: Moments, nodes: Nodes, half_width: float) -> float:
    """Bound on both parts of the contour beyond U.

    Each is moved to the vertical ray above s(U), on which every abs(1 - c^2 s^2) grows; the
    factor of the largest scale alone keeps the integral below 1 / (2 Im(s)^2).
    """
    hyperbola = nodes.quadrature.hyperbola
    s = complex(
        hyperbola.centre + hyperbola.rho * math.cosh(nodes.reach) * math.cos(hyperbola.beta),
        hyperbola.rho * math.sinh(nodes.reach) * math.sin(hyperbola.beta),
    )
    z = s * s
    log_moment = float(moments.log(np.array([z]), np.array([1.0 - z])).real[0])
    log_bound = log_moment - half_width * s.real + math.log(abs(1.0 - z))
    return _exp(log_bound) / (2.0 * math.pi * s.imag**2)


def _rounding(moments: Moments, nodes: Nodes, half_width: float) -> float:
    """Estimate of the rounding of the sum: some ulps per factor and per unit of exponent."""
    logs = nodes.log_weights.real - nodes.points.real * half_width
    sizes = np.exp(np.minimum(logs, _HUGE)) / np.abs(nodes.points)
    n_chunks = moments.n_large_chunks(float(np.abs(nodes.points[-1])) ** 2)
    ulps = 32.0 + moments.n_large(n_chunks) + 4.0 * np.abs(nodes.points) * half_width
    return _ROUNDING * float(sizes @ (ulps + np.abs(nodes.log_weights.real)))


def _highest_real(hyperbola: Hyperbola, cosine: float, cosh: FloatArray) -> FloatArray:
    """Largest Re s^2 on each cell of a side, shape (m,) for m + 1 edges `cosh`.

    Re s^2 = rho^2 cos(2b) X^2 + 2 p rho cos(b) X + p^2 + rho^2 sin(b)^2 with X = cosh u.
    """
    p, rho = hyperbola.centre, hyperbola.rho
    double = 2.0 * cosine * cosine - 1.0
    low, high = cosh[:-1], cosh[1:]
    best = np.clip(-p * cosine / (rho * double), low, high) if double < 0.0 else high
    real = rho * rho * double * np.square(best) + 2.0 * p * rho * cosine * best
    return np.asarray(real + p * p + rho * rho * (1.0 - cosine * cosine))


def _small_log(moments: Moments, cells: _CellBounds) -> FloatArray:
    """Upper bound of log abs(M) of the factors that power sums hold.

    For t = c^2, abs(1 - t z)^2 >= 1 - 2 t A + t^2 B with A >= Re z and B <= abs(z)^2. That is
    (1 - t r)(1 - t r') with r, r' = A +- sqrt(A^2 - B), so the power sums serve again, at r.
    """
    if cells.n_chunks == len(moments.starts):
        return np.zeros(len(cells.real))
    root = np.sqrt(np.square(cells.real) - cells.norm + 0j)
    radius = np.abs(cells.real) + np.abs(root)
    logs = moments.small_log(cells.real + root, cells.n_chunks)
    logs = logs + moments.small_log(cells.real - root, cells.n_chunks)
    ratio = moments.top(cells.n_chunks) * radius
    last = moments.power_sums(cells.n_chunks)[-1] * ratio**N_POWERS
    rest = np.where(ratio < 0.99, last * ratio / np.maximum(1.0 - ratio, 0.01), math.inf)
    return np.asarray(0.5 * logs.real + rest)


def _large_log_on_side(
    moments: Moments, n_chunks: int, hyperbola: Hyperbola, angle: float, cosh: FloatArray
) -> FloatArray:
    """Upper bound of log abs(M) of the large factors on the cells of a long side.

    abs(1 -+ cs)^2 = (c rho X -+ (1 -+ cp) cos b)^2 + sin(b)^2 ((1 -+ cp)^2 - (c rho)^2), a
    parabola in X = cosh u whose least value on a cell is exact.
    """
    large = _Factors.first(moments, n_chunks, hyperbola)
    cosine, sine = math.cos(angle), math.sin(angle)
    low, high = large.k * cosh[:-1], large.k * cosh[1:]
    vertex = large.towards * cosine
    off = np.maximum(0.0, np.maximum(low - vertex, vertex - high))
    near = np.square(off) + sine * sine * large.gap * (large.towards + large.k)
    return large.log(near * large.norm_away(low, cosine, sine))


def _large_log_on_cap(
    moments: Moments, cells: _CellBounds, hyperbola: Hyperbola, cosh: float, cosine: FloatArray
) -> FloatArray:
    """Upper bound of log abs(M) of the large factors on the cells of a cap.

    The better of two lower bounds of abs(1 - c^2 s^2)^2: abs(1 - cs) where the angle is least
    times abs(1 + cs) where it is greatest, or 1 - 2 c^2 Re s^2 + c^4 abs(s)^4 by extremes.
    """
    large = _Factors.first(moments, cells.n_chunks, hyperbola)
    sine = np.sqrt(1.0 - np.square(cosine))
    k_cosh = large.k * cosh
    near = np.square(k_cosh - large.towards * cosine[:-1])
    near += np.square(sine[:-1]) * large.gap * (large.towards + large.k)
    apart = near * large.norm_away(k_cosh, cosine[1:], sine[1:])
    joint = 1.0 - 2.0 * large.squares * cells.real + np.square(large.squares) * cells.norm
    return large.log(np.maximum(apart, joint))


@dataclass(frozen=True, slots=True, eq=False)
class _Factors:
    """The factors 1 -+ cs of the largest scales on hyperbolas of one family, shape (n, 1) each.

    Attributes:
        squares: c^2.
        k: c rho.
        towards: 1 - c p.
        gap: 1 - c, which is towards - k because p + rho = 1.
        away: 1 + c p.
    """

    squares: FloatArray
    k: FloatArray
    towards: FloatArray
    gap: FloatArray
    away: FloatArray

    @classmethod
    def first(cls, moments: Moments, n_chunks: int, hyperbola: Hyperbola) -> _Factors:
        """Factors of the first `n_chunks` chunks; none is allowed."""
        n = moments.n_large(n_chunks)
        squares = moments.squares[:n, None]
        c = np.sqrt(squares)
        gap = moments.gaps[:n, None] / (1.0 + c)
        k = c * hyperbola.rho
        return cls(squares=squares, k=k, towards=gap + k, gap=gap, away=1.0 + c * hyperbola.centre)

    def norm_away(
        self, k_cosh: FloatArray, cosine: FloatArray | float, sine: FloatArray | float
    ) -> FloatArray:
        """abs(1 + cs)^2 where c rho cosh u is `k_cosh`."""
        rest = np.square(sine) * ((self.away - self.k) * (self.away + self.k))
        return np.asarray(np.square(k_cosh + self.away * cosine) + rest)

    def log(self, norms: FloatArray) -> FloatArray:
        """log abs(M) for abs(1 - c^2 s^2)^2 = `norms`, shape (n, m); infinite if any is <= 0."""
        if norms.size and float(norms.min()) <= 0.0:
            return np.full(norms.shape[1], math.inf)
        return np.asarray(-0.5 * np.log(norms).sum(axis=0))


def _exp(value: float) -> float:
    return math.exp(min(value, _HUGE))


_CENTRAL: Final = 0.25
"""Below this many standard deviations probabilities are summed from the centre."""

_LOW_CONFIDENCE: Final = 0.2
_FAR: Final = 1e12
"""Beyond this many largest scales the tail is continued as exp(-h)."""

_TARGET: Final = 1e-13
_MAX_EQUAL: Final = 256
_BLOCK: Final = 4096
_MOVED: Final = 0.05
_TOLERANCE: Final = 4e-16


@dataclass(frozen=True, slots=True, eq=False)
class ContourLaw:
    """abs(W) through the contour integral.

    Attributes:
        unit: largest scale.
        moments: the law in that unit.
        grid: saddle points.
        deviation: standard deviation in that unit.
    """

    unit: float
    moments: Moments
    grid: SaddleGrid
    deviation: float

    @classmethod
    def of(cls, scales: FloatArray) -> ContourLaw:
        """Law of positive `scales`, shape (n,)."""
        moments = Moments.of(scales)
        return cls(
            unit=float(scales.max()),
            moments=moments,
            grid=SaddleGrid.of(moments),
            deviation=math.sqrt(2.0 * float(moments.squares.sum())),
        )

    def within(self, half_width: float) -> float:
        """P(abs(W) <= h); absolute error near 1e-15, small values to relative accuracy."""
        h = half_width / self.unit
        if h < _CENTRAL * self.deviation:
            return as_probability(2.0 * self._nodes(0.0).centre(h).tail)
        return -math.expm1(as_log_probability(self._log_tail(h)))

    def log_tail(self, half_width: float) -> float:
        """log P(abs(W) > h), to about 1e-14 + 1e-16 h / max c."""
        h = half_width / self.unit
        if h < _CENTRAL * self.deviation:
            return math.log1p(-self.within(half_width))
        return self._log_tail(h)

    def density(self, half_width: float) -> float:
        """Density of W at h >= 0, per unit of the scales."""
        h = half_width / self.unit
        if h > _FAR:
            return 0.0
        sums = self._nodes(h).sums(h)
        return math.exp(sums.log_unit) * sums.density / self.unit

    def certify(self, half_width: float) -> CertifiedProbability:
        """P(abs(W) <= h) with a bound: rigorous but for rounding, which is estimated."""
        # The mass beyond is below the least positive double.
        h = min(half_width / self.unit, _FAR)
        best, tail = math.inf, math.nan
        for narrow in (1.0, 0.7, 0.5, 0.35, 0.25):
            nodes = self._nodes(h, narrow=narrow)
            error = 2.0 * tail_error(self.moments, nodes, h)
            if error < best:
                best = error
                tail = 2.0 * math.exp(nodes.sums(h).log_tail)
            if best <= _TARGET:
                break
        if math.isinf(best):
            raise EvaluationError
        return CertifiedProbability(
            probability=as_probability(1.0 - tail, error=best), error=best + 2.0**-53
        )

    def half_width(self, confidence: float) -> float:
        """h with P(abs(W) <= h) = confidence, to about 1e-14 relative."""
        if confidence >= _LOW_CONFIDENCE:
            return self.half_width_of_tail(math.log1p(-confidence))
        return self._central_half_width(0.5 * confidence)

    def half_width_of_tail(self, log_tail: float) -> float:
        """h with log P(abs(W) > h) = log_tail."""
        if log_tail > math.log1p(-_LOW_CONFIDENCE):
            return self._central_half_width(0.5 * math.exp(log_one_minus_exp(log_tail)))
        target = log_tail - math.log(2.0)
        h = self.grid.half_width(target)
        if h > _FAR:
            return (_FAR + self._log_tail(_FAR) - log_tail) * self.unit
        for _ in range(8):
            start = h
            h = _solve_tail(self._nodes(start), start, target)
            if abs(h - start) <= _MOVED * start:
                return h * self.unit
        return self._bracketed(log_tail) * self.unit

    def half_width_gradient(self, half_width: float, scales: FloatArray) -> FloatArray:
        """Derivatives of h by each scale at fixed probability.

        From dM/dc = M 2 c s^2 / (1 - c^2 s^2): dh/dc = (dT/dc) / density.

        Args:
            half_width: h > 0.
            scales: the law's scales in the order wanted, zeros allowed, shape (n,).

        Returns:
            Shape (n,), all >= 0, without unit.
        """
        h = half_width / self.unit
        nodes = self._nodes(h, power=1)
        terms = nodes.terms(h)
        unit = scales / self.unit
        gaps = (1.0 - unit) * (1.0 + unit)
        squares = np.square(unit)
        ratios = np.empty(len(unit))
        for start in range(0, len(unit), _BLOCK):
            block = slice(start, start + _BLOCK)
            factors = gaps[block, None] + squares[block, None] * nodes.one_minus_squares
            ratios[block] = (np.reciprocal(factors) @ (terms * nodes.points)).real
        return np.asarray(unit * ratios * (2.0 / float(terms.real.sum())))

    def _nodes(self, h: float, *, power: int = 0, narrow: float = 1.0) -> Nodes:
        hyperbola = Hyperbola.through(self.grid.crossing(h))
        rule = Quadrature.choose(self.moments, hyperbola, h, narrow=narrow)
        return Nodes.build(self.moments, rule, half_width=h, power=power)

    def _log_tail(self, h: float) -> float:
        near = min(h, _FAR)
        return math.log(2.0) + self._nodes(near).sums(near).log_tail - (h - near)

    def _bracketed(self, log_tail: float) -> float:
        """h with this log tail by bisection of a bracket: slow and sure, after Newton failed."""
        high = self.deviation
        while self._log_tail(high) > log_tail:
            high *= 2.0
        low = 1e-3 * high
        from scipy.optimize import brentq  # loads long, and not at a start

        return float(brentq(lambda h: self._log_tail(h) - log_tail, low, high, xtol=1e-14 * high))

    def _central_half_width(self, probability: float) -> float:
        nodes = self._nodes(0.0)
        h = 0.0
        for _ in range(50):
            sums = nodes.centre(h)
            # P(0 < W <= h) is concave in h, so Newton's steps climb and never overshoot.
            move = (probability - sums.tail) / sums.density
            h += move
            if abs(move) <= _TOLERANCE * h:
                break
        return h * self.unit


@dataclass(frozen=True, slots=True)
class Contour:
    """Evaluator by the contour integral; closed forms where all scales are equal."""

    def prepare(self, scales: FloatArray) -> ContourLaw | EqualScales:
        """Law of positive `scales`, shape (n,)."""
        largest = float(scales.max())
        if len(scales) <= _MAX_EQUAL and float(scales.min()) == largest:
            return EqualScales.of(scale=largest, count=len(scales))
        return ContourLaw.of(scales)


def _solve_tail(nodes: Nodes, start: float, target: float) -> float:
    """Newton on the concave log tail, on fixed nodes."""
    h = start
    for _ in range(30):
        sums = nodes.sums(h)
        move = (sums.log_tail - target) * sums.tail / sums.density
        h = max(h + move, 0.5 * h)
        if abs(move) <= _TOLERANCE * h or abs(h - start) > 0.3 * start:
            break
    return h
