"""Exact numbers from documents: decimals and fractions of bounded size."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from qserver.errors import InputError, QueryError

MAX_DENOMINATOR = 10**9
MAX_MAGNITUDE = 10**12
_MAX_TEXT = 64


def exact_number(value: object, name: str, error: type[InputError] = QueryError) -> Fraction:
    """`value` as an exact fraction; floats are read as the decimal that prints them.

    Args:
        value: int, Decimal, Fraction, float, or a text such as `0.25` or `1/3`.
        name: the field's name, for the error.
        error: the class of the error.

    Raises:
        InputError: not a number, not finite, above 10^12 in size, or its denominator above 10^9.
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
        value = repr(value)
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, Decimal):
        return _from_decimal(value)
    return None


def _parse_text(text: str) -> Fraction | None:
    if len(text) > _MAX_TEXT or not text.isascii():
        return None
    over, slash, under = text.partition("/")
    try:
        if slash:
            return Fraction(int(over), int(under))
        return _from_decimal(Decimal(text))
    except (ValueError, InvalidOperation, ZeroDivisionError):
        return None


def _from_decimal(value: Decimal) -> Fraction | None:
    # An exponent such as 1e999999999 would build an integer of that many digits.
    if not value.is_finite() or abs(value.adjusted()) > 2 * _MAX_TEXT:
        return None
    return Fraction(value)
