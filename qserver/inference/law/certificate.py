"""A bound on the error of the trapezoid sum for the tail.

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

from qserver.inference.law.hyperbola import Hyperbola
from qserver.inference.law.moments import N_POWERS, FloatArray, Moments
from qserver.inference.law.nodes import Nodes

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
    last = moments.power_sums[cells.n_chunks, -1] * ratio**N_POWERS
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
