"""How much noise a fresh row may carry and still meet a requirement.

The noise drawn is g K, K discrete Laplace with P(K = k) proportional to a^abs(k), a = exp(-g / b),
not the continuous X ~ Lap(b) of the tail formula. Draw both by the quantile of one uniform
variable; then abs(g K - X) < g almost surely:

    P(K > j) = a^(j+1) / (1 + a) <= a^j / 2 = P(X > j g) <= a^j / (1 + a) = P(K >= j), j >= 0, as
    2 a <= 1 + a <= 2; so X in (j g, (j+1) g] goes with K in {j, j+1}, and X < 0 by symmetry. QED

So P(abs(g K) <= h) >= P(abs(X) <= h - g): one lattice step of room makes the statement one about
the noise that was drawn. The same holds of the discrete Gaussian and the normal law of its variance
parameter s^2 >= g^2 (`qserver/inference/law/normal_sum.py`).
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isfinite, log

from scipy.special import ndtri_exp

from qserver.errors import CapacityError, RequirementError
from qserver.query.requirement import Requirement
from qserver.records.charge import NANO
from qserver.records.privacy.noise_law import NoiseLaw

# Room for the float evaluation of a half-width, as a part of it.
EVALUATION_ROOM = Fraction(1, 1 << 40)
# log1p is within an ulp or two of ln(1 / delta).
_LOG_ROOM = 1 + Fraction(1, 1 << 50)


def fresh_alpha_nano(
    requirement: Requirement,
    *,
    multiplier: Fraction,
    step: Fraction,
    rounding: Fraction = Fraction(0),
) -> int:
    """Least alpha = 1 / b at which one fresh Laplace row answers multiplier * row as required.

    Args:
        requirement: length L in the query's units, and confidence 1 - delta.
        multiplier: m, the query over its primitive row; not 0.
        step: lattice step g of the row, in records, > 0.
        rounding: room for printing the interval's ends outward, in the query's units, >= 0.

    Returns:
        alpha in nano-epsilon per record, rounded up: the least whole number with
        b ln(1/delta) + g <= ((L/2)(1 - 2^-40) - rounding) / abs(m), but for a part of 2^-50.

    Raises:
        RequirementError: the multiplier is 0, the step not > 0 or the rounding < 0.
        CapacityError: the lattice is too coarse: no noise at all would leave the length unmet.

    References:
        Laplace tail P(abs(X) > t) = exp(-t / b); room g by the coupling in the module's docstring.
    """
    room = _room(requirement, multiplier=multiplier, step=step, rounding=rounding)
    return ceil(Fraction(requirement.log_inverse_delta) * _LOG_ROOM * NANO / room)


def fresh_charge_nano(
    requirement: Requirement, *, multiplier: Fraction, step: Fraction, law: NoiseLaw
) -> int:
    """Least charge of a fresh row with noise of this law, as `fresh_alpha_nano`.

    For Gaussian noise it is the least rho in 1e-9; the standard deviation times the normal quantile
    of 1 - delta / 2 replaces b ln(1/delta).
    """
    if not law.is_additive:
        return fresh_alpha_nano(requirement, multiplier=multiplier, step=step)
    room = _room(requirement, multiplier=multiplier, step=step)
    quantile = -float(ndtri_exp(-requirement.log_inverse_delta - log(2.0)))
    return ceil((Fraction(quantile) * _LOG_ROOM / room) ** 2 / 2 * NANO)


def _room(
    requirement: Requirement,
    *,
    multiplier: Fraction,
    step: Fraction,
    rounding: Fraction = Fraction(0),
) -> Fraction:
    """The part of the row's half-width left to the noise, in records; > 0."""
    if multiplier == 0:
        raise RequirementError("multiplier", "not be 0: a query that is zero needs no noise")
    if step <= 0 or rounding < 0:
        raise RequirementError("step", "be > 0 and `rounding` >= 0")
    half = Fraction(requirement.length) / 2 * (1 - EVALUATION_ROOM) - rounding
    room = half / abs(multiplier) - step
    if room <= 0:
        least = 2 * (step * abs(multiplier) + rounding) / (1 - EVALUATION_ROOM)
        raise CapacityError(
            f"`length` must exceed {float(least):.6g}, what the row's lattice step allows, "
            f"got {requirement.length!r}."
        )
    return room


def alpha_nano_up(alpha: float) -> int:
    """`alpha`, per record, in nano-epsilon, rounded up: at least 1.

    Raises:
        RequirementError: alpha is not a finite number > 0.
    """
    if not isfinite(alpha) or alpha <= 0:
        raise RequirementError("alpha", "be a finite number > 0", alpha)
    return ceil(Fraction(alpha) * NANO)
