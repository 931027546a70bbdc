"""Privacy amplification by sampling: the cost of a mechanism on a secret Poisson sample.

Costs are whole nano-epsilon and never too small. Each record is in the sample independently with
probability `rate`, and nobody learns which ones are. A mechanism that is x-private on the sample,
record by record, is ln(1 + rate (e^x - 1)) private on all records under add-remove neighbours. A
person with k records loses at most k times that. Under replace-one, where one record leaves and
another comes, it is twice that: docs/guarantee.md has the proof. x is the cost of everything that
is released of one sample together. Applied to its parts one by one, the formula would add up to
less than the true cost.

References:
    Li, Qardaji and Su (2012), theorem 1; Balle, Barthe and Gaboardi (2018), theorem 8.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from qserver.errors import InputError
from qserver.records.charge import NANO

# Far more digits than a million epsilon in nano-epsilon; each step errs by at most a unit.
_EXACT = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)
_ROOM = Decimal(10) ** -40


def amplified_nano(nominal_nano: int, *, rate: Fraction) -> int:
    """ln(1 + rate (e^x - 1)) in nano-epsilon, rounded up.

    Args:
        nominal_nano: x, the cost on the sample of everything released from it, >= 0.
        rate: the greatest probability of a record to be in the sample, in (0, 1].

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
    """The largest x in nano-epsilon with a cost of at most `charged_nano` after amplification.

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
