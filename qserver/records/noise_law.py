"""Laws of noise: what a measurement costs whoever moves its truth, and how such costs add up.

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
    "The Discrete Gaussian for Differential Privacy", theorem 4 for the loss and proposition 12
    (which improves on the usual conversion) for epsilon at delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt, log, log1p, sqrt
from typing import Final, Literal, get_args

import numpy as np

from qserver.errors import InputError
from qserver.query.grid import IntegerGrid
from qserver.records.charge import NANO

Privacy = Literal["pure", "zcdp"]
"""What a population's limit bounds: epsilon, or rho that is shown as epsilon at a delta."""
PRIVACIES: Final = get_args(Privacy)

MOST_DELTA = Fraction(1, 10**6)
_DIGITS = 60
_SQUARED_IN_64_BITS = 1 << 30


@dataclass(frozen=True)
class NoiseLaw:
    """A law of noise, by the power with which moves of a truth count.

    Args:
        name: as the owner writes it.
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

    def charge(self, scale: float) -> float:
        """The charge of a row with this noise: `scale` the other way round."""
        return 1.0 / scale if self.power == 1 else 0.5 / (scale * scale)

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


@dataclass(frozen=True)
class Shown:
    """How losses are shown: as they are under pure privacy, else as epsilon at a delta.

    Args:
        delta: None under pure privacy.
    """

    delta: Fraction | None = None

    def nano(self, loss_nano: int) -> int:
        """A loss in 1e-9 epsilon; it rises with the loss."""
        return loss_nano if self.delta is None else epsilon_nano(loss_nano, self.delta)

    def rise_nano(self, before_nano: int, after_nano: int) -> int:
        """How much a loss rises, in 1e-9 epsilon."""
        return self.nano(after_nano) - self.nano(before_nano)

    def left_nano(self, limit_nano: int, lost_nano: int) -> int:
        """How much a loss may still rise; 0 where it has passed the limit."""
        return max(0, self.rise_nano(lost_nano, limit_nano))


@lru_cache(maxsize=1 << 14)
def epsilon_nano(rho_nano: int, delta: Fraction) -> int:
    """Epsilon in 1e-9, rounded up, such that rho-zCDP implies (epsilon, delta)-privacy.

    For every a > 1, epsilon = a rho + ln(1 - 1/a) + (ln(1/delta) - ln a) / (a - 1) will do. So a
    good a is looked for in floats, and the figure at it is computed in 60 digits.

    Args:
        rho_nano: in 1e-9, >= 0.
        delta: probability > 0, at most `MOST_DELTA`.

    Raises:
        InputError: a value is out of range.
    """
    _check(rho_nano, delta)
    if rho_nano == 0:
        return 0
    rho, log_inverse = rho_nano / NANO, log(delta.denominator) - log(delta.numerator)

    def at(log_excess: float) -> float:
        excess = float(np.exp(log_excess))
        more = log1p(excess)
        return excess * rho + log_excess - more + (log_inverse - more) / excess

    from scipy.optimize import minimize_scalar  # loads long, and not at a start

    middle = (log(log_inverse) - log(rho)) / 2  # where excess * rho = log_inverse / excess
    best = minimize_scalar(
        at, bounds=(middle - 6, middle + 6), method="bounded", options={"xatol": 1e-10}
    )
    return _epsilon_nano(rho_nano, delta, Decimal(float(np.exp(best.x))))


def rho_nano(limit_nano: int, delta: Fraction) -> int:
    """The greatest rho in 1e-9 whose epsilon at delta is at most a limit, in 1e-9 epsilon.

    Raises:
        InputError: a value is out of range, or the limit is too small for any rho.
    """
    _check(limit_nano, delta)
    least, most = 0, 1
    while epsilon_nano(most, delta) <= limit_nano:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        within = epsilon_nano(middle, delta) <= limit_nano
        least, most = (middle, most) if within else (least, middle)
    if not least:
        raise InputError("limit", "be greater: at this `delta` it leaves no rho of 1e-9")
    return least


def limit_nano(limit: Fraction, delta: Fraction | None) -> int:
    """A limit in epsilon as it is kept, rounded down: nano-epsilon, or at a delta nano-rho."""
    nano = int(limit * NANO)
    return nano if delta is None else rho_nano(nano, delta)


def _epsilon_nano(rho_nano: int, delta: Fraction, excess: Decimal) -> int:
    """The figure at a = 1 + excess. It is off by far less than the 1e-20 that is added."""
    with localcontext() as context:
        context.prec = _DIGITS
        order = 1 + excess
        part = Decimal(delta.numerator) / delta.denominator
        found = order * rho_nano / NANO + (excess / order).ln() - (part.ln() + order.ln()) / excess
    return max(0, ceil((Fraction(found) + Fraction(1, 10**20)) * NANO))


def check_delta(delta: Fraction | None) -> None:
    """Raise InputError unless it is a delta that a population may have."""
    if delta is None or not 0 < delta <= MOST_DELTA:
        shown = None if delta is None else f"{float(delta):g}"
        why = "with that probability the people may lose more than epsilon"
        raise InputError("delta", f"be more than 0 and at most 1e-6: {why}", shown)


def _check(nano: int, delta: Fraction) -> None:
    if type(nano) is not int or nano < 0:
        raise InputError("nano", "be an int >= 0", nano)
    check_delta(delta)
