"""Rho of zero-concentrated privacy as epsilon at a delta, and back.

References:
    Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
    proposition 12, which improves on the usual conversion.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil, log, log1p

import numpy as np

from qserver.errors import ConfigError, InputError
from qserver.records.charge import NANO
from qserver.records.privacy import PRIVACIES, Privacy

MOST_DELTA = Fraction(1, 10**6)
_DIGITS = 60


@dataclass(frozen=True)
class Shown:
    """How losses are shown: themselves under pure privacy, else as epsilon at a delta.

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

    def loss_nano(self, before_nano: int, rise_nano: int) -> int:
        """The most that a loss may rise while the shown figure rises by at most this."""
        if self.delta is None:
            return rise_nano
        return max(0, _greatest(self.nano(before_nano) + rise_nano, self.delta) - before_nano)

    def left_nano(self, limit_nano: int, lost_nano: int) -> int:
        """The rise still possible for a loss; 0 above the limit."""
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
    if not (found := _greatest(limit_nano, delta)):
        raise InputError("limit", "be greater: at this `delta` it leaves no rho of 1e-9")
    return found


def _greatest(limit_nano: int, delta: Fraction) -> int:
    """The greatest rho under a limit; 0 if there is none."""
    least, most = 0, 1
    while epsilon_nano(most, delta) <= limit_nano:
        least, most = most, 2 * most
    while most - least > 1:
        middle = (least + most) // 2
        within = epsilon_nano(middle, delta) <= limit_nano
        least, most = (middle, most) if within else (least, middle)
    return least


def limit_nano(limit: Fraction, delta: Fraction | None) -> int:
    """A limit in epsilon as kept, rounded down: nano-epsilon, or nano-rho at a delta."""
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


def check_privacy(privacy: Privacy, delta: Fraction | None) -> None:
    """Raise InputError if `delta` is missing, unwanted or out of range."""
    if privacy not in PRIVACIES:
        raise ConfigError("privacy", "be pure or zcdp", privacy)
    if privacy == "pure":
        if delta is not None:
            raise ConfigError("delta", "be left out with --privacy pure, which has none")
        return
    if delta is None:
        raise ConfigError("delta", "be given with --privacy zcdp, such as 1e-9")
    check_delta(delta)


def check_delta(delta: Fraction) -> None:
    """Raise InputError unless a population may have this delta."""
    if not 0 < delta <= MOST_DELTA:
        why = "with that probability somebody may lose more than epsilon"
        raise ConfigError("delta", f"be more than 0 and at most 1e-6: {why}", f"{float(delta):g}")


def _check(nano: int, delta: Fraction) -> None:
    if type(nano) is not int or nano < 0:
        raise InputError("nano", "be an int >= 0", nano)
    check_delta(delta)
