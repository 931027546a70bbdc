"""The disclosure guard: a bound on the knowledge of one cell's count.

Assume that somebody knows every other cell and finds every value of this cell's count equally
likely. After the answers, one value has probability tanh(loss / 2) at most: the answers distinguish
neighbouring values by a factor exp(loss), so the likeliest value has at most the share
1 / sum over integers j of exp(-loss abs(j)). docs/guarantee.md has the proof, and the limits of it.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal, localcontext

from qserver.errors import ConfigError
from qserver.records.charge import NANO

MIN_CAP, MAX_CAP = 1e-6, 1 - 1e-6
_DIGITS = 40


def guard_nano(cap: float) -> int:
    """The most that a cell may lose so that its count is known with probability `cap` at most.

    Args:
        cap: probability, from 1e-6 to 1 - 1e-6.

    Returns:
        2 atanh(cap) = ln((1 + cap) / (1 - cap)), in 1e-9 epsilon, rounded down.

    Raises:
        ConfigError: `cap` is out of range.
    """
    if not MIN_CAP <= cap <= MAX_CAP:
        raise ConfigError("disclosure_cap", f"be from {MIN_CAP:g} to 1 - {MIN_CAP:g}", cap)
    with localcontext() as context:
        context.prec = _DIGITS
        exact = Decimal(cap)
        loss = ((1 + exact) / (1 - exact)).ln() * NANO
        # The logarithm is exact to 40 digits, far more than the 21 that are kept.
        return int(loss.to_integral_value(rounding=ROUND_FLOOR))


def known_at_most(loss_nano: int) -> float:
    """Most probability at which the count of a cell with this loss can be known."""
    return math.tanh(loss_nano / NANO / 2)
