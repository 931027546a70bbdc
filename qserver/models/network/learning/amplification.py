"""What a mechanism on a secret Poisson sample costs, in whole nano-epsilon and never too little.

Each record is in the sample with probability `rate`, by itself, and nobody learns which ones are.
A mechanism that is x-private on the sample, record by record, is then ln(1 + rate (e^x - 1))
private on all records under add-remove neighbours. Somebody with k records has at most k times
that, and under replace-one, where a record leaves and another comes, twice that: docs/guarantee.md
has the proof. The x is of all that is released of one sample together: for the parts of it one by
one the formula adds up to less than the whole costs.

References:
    Li, Qardaji and Su (2012), theorem 1; Balle, Barthe and Gaboardi (2018), theorem 8.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from qserver.errors import InputError
from qserver.records.charge import NANO

# Far more digits than nano-epsilons of a million epsilon need; each step errs by a unit at most.
_EXACT = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)
_ROOM = Decimal(10) ** -40


def amplified_nano(nominal_nano: int, *, rate: Fraction) -> int:
    """ln(1 + rate (e^x - 1)) in nano-epsilon, rounded up.

    Args:
        nominal_nano: x, what everything drawn from the sample costs on it, >= 0.
        rate: the greatest probability with which a record is in the sample, in (0, 1].

    Raises:
        InputError: a value is out of range.
    """
    _check(nominal_nano, rate)
    grown = _EXACT.exp(_epsilon(nominal_nano))
    inside = _EXACT.add(1, _EXACT.multiply(_decimal(rate), _EXACT.subtract(grown, 1)))
    found = _EXACT.multiply(_EXACT.ln(inside), NANO)
    if nominal_nano == 0:
        return 0
    return int(_EXACT.add(found, _ROOM).to_integral_value(ROUND_CEILING))


def nominal_nano(charged_nano: int, *, rate: Fraction) -> int:
    """The largest x in nano-epsilon that costs no more than `charged_nano` after amplification.

    ln(1 + (e^c - 1) / rate), rounded down.

    Raises:
        InputError: a value is out of range.
    """
    _check(charged_nano, rate)
    grown = _EXACT.subtract(_EXACT.exp(_epsilon(charged_nano)), 1)
    inside = _EXACT.add(1, _EXACT.divide(grown, _decimal(rate)))
    found = _EXACT.multiply(_EXACT.ln(inside), NANO)
    return max(0, int(_EXACT.subtract(found, _ROOM).to_integral_value(ROUND_FLOOR)))


def _check(nano: int, rate: Fraction) -> None:
    if nano < 0:
        raise InputError("nano", "be 0 or more", nano)
    if not 0 < rate <= 1:
        raise InputError("rate", "be above 0 and at most 1", str(rate))


def _epsilon(nano: int) -> Decimal:
    return _EXACT.divide(Decimal(nano), NANO)


def _decimal(rate: Fraction) -> Decimal:
    return _EXACT.divide(Decimal(rate.numerator), rate.denominator)
