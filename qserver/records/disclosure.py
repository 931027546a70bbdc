"""The disclosure guard: how well an answer may let somebody know the count of one cell.

Somebody who knows every other cell, and holds every value of a cell's count equally likely, knows
it after the answers with probability tanh(loss / 2) at most: neighbouring values are told apart by
a factor exp(loss), so the likeliest is at most 1 / sum over integers j of exp(-loss abs(j)) of all.
docs/guarantee.md has the proof, and what the guard does not say.
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
    """With what probability the count of a cell of this loss can be known, at most."""
    return math.tanh(loss_nano / NANO / 2)
