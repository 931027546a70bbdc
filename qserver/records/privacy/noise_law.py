"""Laws of noise: the cost of a measurement to those who move its truth, and how costs add up.

A row is measured at some *charge*. Whoever moves its truth by d loses charge * abs(d)^p, where p is
the law's power. Losses of independent measurements add up under both laws.

* `LAPLACE`, p = 1: the charge is 1 / b, and losses are epsilon.
* `GAUSSIAN`, p = 2: the charge is 1 / (2 s2) for noise of variance parameter s2, and losses are rho
  of zero-concentrated privacy. The owner chooses it for a population (`Privacy`).

*Why they add up*, whoever asks. Fix two neighbours, and let d_i be how far measurement i's truth
differs between them, which earlier answers decide. Under p = 2 the Renyi divergence of order a of
one answer is at most a charge_i d_i^2, by the reference's theorem 4: both truths are on the
lattice. So over the answers of the one, exp((a - 1) ln(ratio of the transcript's probabilities) -
a (a - 1) sum charge_i d_i^2), answer after answer, never rises on the mean. The ledger holds the
sum to rho on every path. So the mean of ratio^(a-1) is at most exp(a (a - 1) rho): the transcript
is rho-concentrated. Answers must be drawn independently of one another: a refinement is one more
measurement, and both are combined by weights.

*k records.* If one person's records move a truth by d_1, .., d_n, then (d_1 + .. + d_n)^p is at
most n^(p-1) times the sum of the d_i^p, by the power mean inequality. All are equal at worst.

References:
    Bun and Steinke (2016), "Concentrated Differential Privacy". Canonne, Kamath and Steinke (2020),
    "The Discrete Gaussian for Differential Privacy", theorem 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, log, log1p, sqrt
from statistics import NormalDist
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from qserver.query.class_grid import IntegerGrid
from qserver.records.charge import NANO
from qserver.records.privacy import Privacy

Floats = npt.NDArray[np.float64]
Charges = TypeVar("Charges", float, Floats)
_SQUARED_IN_64_BITS = 1 << 30
_NORMAL = NormalDist()
_LIKE_LAPLACE = 1.959963984540054 / log(20.0)


@dataclass(frozen=True)
class NoiseLaw:
    """A law of noise, by the power with which moves of a truth count.

    Args:
        name: as it is written down.
        power: p, 1 or 2.
    """

    name: str
    power: int

    @property
    def is_additive(self) -> bool:
        """Whether independent measurements of a row cost no more than one of the same precision.

        Then nothing is refined, and weights of least variance have the shortest interval.
        """
        return self.power == 2

    def of_moves(self, moves: IntegerGrid) -> IntegerGrid:
        """abs(d)^p for each move d, exactly; Python integers where 64 bits may not hold them.

        Args:
            moves: whole numbers of any shape, never negative.
        """
        if self.power == 1:
            return moves
        if moves.size and int(moves.max()) >= _SQUARED_IN_64_BITS:
            moves = moves.astype(object)
        squares: IntegerGrid = np.asarray(moves * moves)
        return squares

    def of_move(self, move: Fraction) -> Fraction:
        """abs(d)^p of one move d."""
        return abs(move) if self.power == 1 else move * move

    def together(self, n: int) -> int:
        """n^p: what n equal moves of one person cost, over what one costs."""
        return n * self.spread(n)

    def spread(self, n: int) -> int:
        """n^(p-1): what n moves of one person cost together is at most so often their sum."""
        return 1 if self.power == 1 else n

    def scale(self, charge_nano: int) -> float:
        """The noise of a row at a charge > 0, in records: b, or the standard deviation."""
        charge = charge_nano / NANO
        return NANO / charge_nano if self.power == 1 else 1.0 / sqrt(2.0 * charge)

    def sharpness(self, charge_nano: int) -> float:
        """One over the noise of a row at a charge, in records: 1 / b or 1 / s; 0 at 0."""
        return self.sharpness_of(charge_nano / NANO)

    def sharpness_of(self, charge: float) -> float:
        """The same for a charge in epsilon or rho."""
        return charge if self.power == 1 else sqrt(2.0 * charge)

    def charge_of_sharpness(self, sharpness: Charges) -> Charges:
        """The inverse of `sharpness_of`."""
        return sharpness if self.power == 1 else 0.5 * sharpness * sharpness

    def charge_of_variance(self, variance: float) -> float:
        """The charge in epsilon or rho of a row whose noise has this variance, in records^2."""
        return sqrt(2.0 / variance) if self.power == 1 else 0.5 / variance

    def half_width(self, missed: float) -> float:
        """The size that noise 1 exceeds with this probability.

        That of a sum of such noises grows no faster as the probability falls: normal ones all
        grow alike, and of Laplace noise the law of a sum is log-concave.
        """
        return -log(missed) if self.power == 1 else -_NORMAL.inv_cdf(missed / 2.0)

    def half_width_at(self, confidence: float) -> float:
        """The same at a confidence."""
        return -log1p(-confidence) if self.power == 1 else self.half_width(1.0 - confidence)

    @property
    def variance(self) -> float:
        """Variance of noise 1."""
        return 2.0 if self.power == 1 else 1.0

    @property
    def growth(self) -> int:
        """The power of the charge with which a row's precision grows."""
        return 2 // self.power

    def information(self, charges: Charges) -> Charges:
        """Two over the variance of rows with these charges, in epsilon or rho."""
        return charges**2 if self.power == 1 else 4.0 * charges

    def information_slope(self, charges: Floats) -> Floats:
        """The derivative of `information`."""
        return 2.0 * charges if self.power == 1 else np.full_like(charges, 4.0)

    def times(self, information: Floats) -> Floats:
        """The factor of charges for this factor of information."""
        return np.sqrt(information) if self.power == 1 else information

    def shown_scale(self, charge_nano: int) -> float:
        """b of a Laplace noise whose half-width at 95 percent is that of this noise, in records."""
        return self.scale(charge_nano) * (1.0 if self.power == 1 else _LIKE_LAPLACE)

    def sharpness_like(self, sharpness: float) -> float:
        """The sharpness of noise whose half-width at 95 percent is Laplace noise's of a
        sharpness."""
        return sharpness * (1.0 if self.power == 1 else _LIKE_LAPLACE)

    def charge(self, scale: float) -> float:
        """The charge of a row with this noise: the inverse of `scale`."""
        return 1.0 / scale if self.power == 1 else 0.5 / (scale * scale)

    def like_laplace(self, scale: float) -> float:
        """b of Laplace noise with the variance of this noise at a scale."""
        return scale * sqrt(self.variance / 2.0)

    def sharpest(self, limit_nano: int) -> int:
        """At least 1e9 over the least noise that the limit pays for, in records, at k = 1.

        It is the limit in epsilon, and the root of twice the limit in rho.
        """
        return limit_nano if self.power == 1 else isqrt(2 * limit_nano * NANO) + 1


LAPLACE = NoiseLaw("laplace", 1)
GAUSSIAN = NoiseLaw("gaussian", 2)


def law_of(privacy: Privacy) -> NoiseLaw:
    """The noise of a population."""
    return LAPLACE if privacy == "pure" else GAUSSIAN
