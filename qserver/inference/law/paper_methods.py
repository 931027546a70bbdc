"""The law of a Laplace sum by the two methods of the source paper: lattice masses, and draws.

Its probability calculation rounds every variable but the widest to a lattice; its masses are
differences of its CDF. The masses are convolved, shortest first. The widest law enters exactly,
through its CDF:
P(abs(W) <= h) = sum_k u_k (F(h - kg) - F(-h - kg)).
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from qserver.errors import CapacityError, RequirementError
from qserver.inference.arrays import FloatArray
from qserver.inference.law.evaluator import CertifiedProbability

_LOST: Final = 1e-15
_MAX_POINTS: Final = 1 << 23
_FFT_FROM: Final = 64
_ROUNDING: Final = 2.0**-52


@dataclass(frozen=True, slots=True, eq=False)
class LatticeMasses:
    """Masses of the narrower variables' sum at k * step, k = -m..m.

    Attributes:
        step: g > 0.
        masses: u, shape (2m + 1,).
        loss: bound on 1 - sum(u), the probability cut off (the paper's lemma 4.3).
        rounding: estimate of the rounding of all masses together.
    """

    step: float
    masses: FloatArray
    loss: float
    rounding: float

    @classmethod
    def of(cls, scales: FloatArray, *, step: float, negligible: float = 0.0) -> LatticeMasses:
        """Masses of the sum for positive `scales`, shape (n,), n >= 1.

        Args:
            negligible: probability that may be cut off either end of each convolution. It keeps
                sums of many variables as short as they are wide.
        """
        cut = _LOST / len(scales)
        reach = np.ceil(-math.log(cut) * scales / step).astype(np.int64)
        if int(reach.sum()) > _MAX_POINTS:
            raise CapacityError("The lattice of the convolution needs too many points.")
        pairs = zip(scales.tolist(), reach.tolist(), strict=True)
        rows = [_laplace_masses(c, reach=m, step=step) for c, m in pairs]
        masses = _convolve_shortest_first(rows, negligible)
        doublings = math.log2(len(masses) + 1.0) + 1.0
        return cls(
            step=step,
            masses=masses,
            loss=float(np.exp(-(reach + 0.5) * step / scales).sum()) + 2.0 * negligible * len(rows),
            rounding=_ROUNDING * len(scales) * doublings,
        )

    def tail(self, half_width: float, widest: float) -> float:
        """P(abs(W) > h) with Lap(widest) added; too small by at most `loss`."""
        m = len(self.masses) // 2
        places: FloatArray = np.arange(-m, m + 1, dtype=np.float64) * self.step
        # Both tails of the exact law at once: the masses are symmetric.
        survival = _laplace_survival(np.asarray((half_width - places) / widest))
        return 2.0 * float(np.dot(self.masses, survival))


def lattice_error(descending: FloatArray, step: float) -> float:
    """Bound on the change of P(abs(W) <= h) if all but the widest are rounded to the lattice.

    The variables are rounded one at a time, the narrowest first. With X = K + xi, rounding one
    changes the probability by at most sup f E abs(E[xi | K]) + sup abs(f') E xi^2, f the density
    of the wider ones, still continuous. A symmetric log-concave density of variance V has
    sup f <= 1 / sqrt(2V), so splitting the wider ones into two parts, sup abs(f') <=
    1 / sqrt(V_A V_B); also sup abs(f') <= 1 / (2 c^2) for the widest alone.

    Args:
        descending: scales from the widest down, shape (n,).
        step: g.
    """
    # In units of the widest, so that no square leaves the range of floats.
    descending, step = descending / descending[0], step / float(descending[0])
    c = descending[1:]
    variances = 2.0 * np.square(descending)
    part_a = np.cumsum(np.where(np.arange(len(descending)) % 2 == 0, variances, 0.0))[:-1]
    part_b = np.cumsum(variances)[:-1] - part_a
    height = 1.0 / np.sqrt(2.0 * (part_a + part_b))
    slope = 1.0 / np.sqrt(part_a * np.maximum(part_b, variances[0] / 16.0))
    slope = np.where(part_b > variances[0] / 16.0, slope, math.inf)
    slope = np.minimum(slope, 1.0 / variances[0])
    shift = mean_rounding(c, step)
    square = mean_square_rounding(c, step)
    return float((height * shift + slope * square).sum())


def mean_rounding(scales: FloatArray, step: float) -> FloatArray:
    """Upper bound of E abs(E[xi | K]), xi = X - K, for X = Lap(c) and its nearest lattice point K.

    Cell 0 has mean 0; on every other one xi is an exponential cut to the cell, whose mean is
    (g/2) coth(g/2c) - c off the middle, at most g^2 / 12c and g/2.
    """
    bias = np.minimum(step * step / (12.0 * scales), 0.5 * step)
    return np.asarray(np.exp(-0.5 * step / scales) * bias)


def mean_square_rounding(scales: FloatArray, step: float) -> FloatArray:
    """Upper bound of E xi^2; see `mean_rounding`.

    With x = g/2c it is c^2 (x^2 + 2 - 2 x coth x) on every cell but the middle one, where it is
    less than g^2 / 12; x coth x >= 1 + x^2/3 - x^4/45.
    """
    x = 0.5 * step / scales
    fine = step * step / 12.0 * (1.0 + 2.0 / 15.0 * np.square(x))
    coarse = np.minimum(0.25 * step * step, 2.0 * np.square(scales))
    return np.where(x <= 1.0, fine, coarse)


def _laplace_masses(scale: float, *, reach: int, step: float) -> FloatArray:
    """F((k + 1/2) g) - F((k - 1/2) g) for k = -reach..reach."""
    k = np.arange(1, reach + 1)
    ratio = step / scale
    side = 0.5 * np.exp(-(k - 0.5) * ratio) * -math.expm1(-ratio)
    return np.concatenate([side[::-1], [-math.expm1(-0.5 * ratio)], side])


def _laplace_survival(x: FloatArray) -> FloatArray:
    """P(Lap(1) > x)."""
    half = 0.5 * np.exp(-np.abs(x))
    return np.where(x >= 0.0, half, 1.0 - half)


def _convolve_shortest_first(rows: list[FloatArray], negligible: float) -> FloatArray:
    from scipy.signal import fftconvolve  # loads long, and not at a start

    heap = [(len(row), i, row) for i, row in enumerate(rows)]
    heapq.heapify(heap)
    n_made = len(heap)
    while len(heap) > 1:
        _, _, a = heapq.heappop(heap)
        _, _, b = heapq.heappop(heap)
        product = fftconvolve(a, b) if len(a) >= _FFT_FROM else np.convolve(a, b)
        product = _without_ends(np.maximum(product, 0.0), negligible)
        heapq.heappush(heap, (len(product), n_made, product))
        n_made += 1
    return heap[0][2]


def _without_ends(masses: FloatArray, negligible: float) -> FloatArray:
    """Symmetric masses without ends that hold at most `negligible` each; their middle stays."""
    if negligible <= 0.0:
        return masses
    half = len(masses) // 2
    most = np.maximum(np.cumsum(masses[:half]), np.cumsum(masses[:half:-1]))
    n_cut = int(np.searchsorted(most, negligible, side="right"))
    return masses[n_cut : len(masses) - n_cut]


@dataclass(frozen=True, slots=True, eq=False)
class SampledLaw:
    """Empirical law of abs(W).

    Attributes:
        magnitudes: abs(W) of the draws in ascending order, shape (m,).
        confidence: probability that the reported errors hold, all half-widths at once.
    """

    magnitudes: FloatArray
    confidence: float

    @property
    def error(self) -> float:
        """Bound on abs(empirical - exact) at every h at once: Dvoretzky, Kiefer and Wolfowitz."""
        return math.sqrt(math.log(2.0 / (1.0 - self.confidence)) / (2.0 * len(self.magnitudes)))

    def within(self, half_width: float) -> float:
        """Share of draws with abs(W) <= h."""
        count = int(np.searchsorted(self.magnitudes, half_width, side="right"))
        return count / len(self.magnitudes)

    def log_tail(self, half_width: float) -> float:
        """log of the share of draws beyond h, -inf beyond them all."""
        tail = 1.0 - self.within(half_width)
        return math.log(tail) if tail > 0.0 else -math.inf

    def certify(self, half_width: float) -> CertifiedProbability:
        """Share of draws within h; the error holds with `confidence` over the draws."""
        return CertifiedProbability(
            probability=self.within(half_width), error=self.error, confidence=self.confidence
        )

    def half_width(self, confidence: float) -> float:
        """Least draw h with P(abs(W) <= h) >= confidence in the sample."""
        rank = math.ceil(confidence * len(self.magnitudes))
        return float(self.magnitudes[max(rank, 1) - 1])

    def half_width_of_tail(self, log_tail: float) -> float:
        """Half-width at confidence 1 - exp(log_tail)."""
        return self.half_width(-math.expm1(log_tail))


@dataclass(frozen=True, slots=True)
class MonteCarlo:
    """Evaluator by random draws; every law takes fresh ones.

    The draws only compute a distribution: they are no noise of a release and protect nothing.

    Attributes:
        generator: source of the draws, advanced by `prepare`.
        n_draws: m >= 1; the error is about sqrt(ln(2 / (1 - confidence)) / 2m).
        confidence: probability, over the draws, that the reported errors hold, in (0, 1).
    """

    generator: np.random.Generator
    n_draws: int = 200_000
    confidence: float = 1.0 - 1e-9

    def __post_init__(self) -> None:
        if self.n_draws < 1:
            raise RequirementError("n_draws", "be >= 1", self.n_draws)
        if not 0.0 < self.confidence < 1.0:
            raise RequirementError("confidence", "lie in (0, 1)", self.confidence)

    def prepare(self, scales: FloatArray) -> SampledLaw:
        """Law of `scales`, shape (n,), from n * n_draws Laplace draws."""
        total = np.zeros(self.n_draws)
        for scale in scales.tolist():
            total += self.generator.laplace(0.0, scale, self.n_draws)
        return SampledLaw(magnitudes=np.sort(np.abs(total)), confidence=self.confidence)
