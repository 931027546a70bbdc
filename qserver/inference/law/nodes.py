"""Nodes and weights of the contour integral; every quantity of a law is a sum over them.

With w_k = step M(s_k) s'(u_k) / (2 pi i), mirrored nodes counted twice:
T(h) = Re sum w_k exp(-s_k h) / s_k, the density is Re sum w_k exp(-s_k h), and
P(0 < W <= h) = Re sum w_k (1 - exp(-s_k h)) / s_k. Units: largest scale 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from qserver.errors import CapacityError, EvaluationError
from qserver.inference.law.hyperbola import Hyperbola, Quadrature
from qserver.inference.law.moments import ComplexArray, FloatArray, Moments

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
