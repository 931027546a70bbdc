"""Exact numbers from documents: decimals and fractions of bounded size."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from qserver.errors import InputError, QueryError

MAX_DENOMINATOR = 10**9
MAX_MAGNITUDE = 10**12
_MAX_TEXT = 64
# Python itself would also take underscores, spaces, signs below the slash and other digits.
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,6})?\Z")
_RATIO = re.compile(r"[+-]?[0-9]+/[0-9]+\Z")


def exact_number(value: object, name: str, error: type[InputError] = QueryError) -> Fraction:
    """`value` as an exact fraction; floats are read as the decimal that prints them.

    Args:
        value: int, Decimal, Fraction, float, or a text such as `0.25` or `1/3`.
        name: the field's name, for the error.
        error: the class of the error.

    Raises:
        InputError: not a number, not finite, above 10^12 in size, its denominator above 10^9, or
            beyond 64 characters of text or 128 digits.
    """
    number = _parse(value)
    if number is None:
        raise error(name, "be a finite number", value)
    if abs(number) > MAX_MAGNITUDE:
        raise error(name, f"be at most {MAX_MAGNITUDE:,} in size", value)
    if number.denominator > MAX_DENOMINATOR:
        raise error(name, "have at most nine decimals, or a denominator up to 10^9", value)
    return number


def _parse(value: object) -> Fraction | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | Fraction):
        return Fraction(value)
    if isinstance(value, float):
        value = repr(float(value))  # NumPy's floats print as `np.float64(0.5)`
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, Decimal):
        return _from_decimal(value)
    return None


def _parse_text(text: str) -> Fraction | None:
    if len(text) > _MAX_TEXT:
        return None
    if _RATIO.match(text):
        over, under = map(int, text.split("/"))
        return Fraction(over, under) if under else None
    return _from_decimal(Decimal(text)) if _DECIMAL.match(text) else None


def _from_decimal(value: Decimal) -> Fraction | None:
    # An exponent such as 1e999999999 would build an integer of that many digits, and a fraction
    # of a million digits takes its time.
    if not value.is_finite() or abs(value.adjusted()) > 2 * _MAX_TEXT:
        return None
    return Fraction(value) if len(value.as_tuple().digits) <= 2 * _MAX_TEXT else None
