"""ROUND and CAST of a released number, and COALESCE of one that is never missing."""

from __future__ import annotations

import math
from fractions import Fraction

from sqlglot import exp

from qserver.query.sql.attributes import constant
from qserver.query.sql.text import SqlText

MOST_DIGITS = 12
_WHOLE = frozenset({exp.DType.INT, exp.DType.BIGINT})


def unrounded(node: exp.Expr, source: SqlText) -> tuple[exp.Expr, int | None]:
    """What is measured of an item, and to how many digits it is rounded; None for not at all.

    Raises:
        SqlError: the number of digits is no whole number, or too large.
    """
    if isinstance(node, exp.Round):
        decimals = node.args.get("decimals")
        digits = Fraction(0) if decimals is None else constant(decimals, source)
        if digits is None or digits.denominator != 1 or abs(digits) > MOST_DIGITS:
            raise source.refuse(
                f"round to a whole number of digits, from -{MOST_DIGITS} to {MOST_DIGITS}", node
            )
        return node.this.unnest(), int(digits)
    if isinstance(node, exp.Cast) and node.args["to"].this in _WHOLE:
        return node.this.unnest(), 0
    if isinstance(node, exp.Coalesce) and _is_never_missing(node, source):
        return node.this.unnest(), None
    return node, None


def rounded(value: float | None, digits: int) -> float | None:
    """A number to so many digits, a half away from below; None and infinity stay."""
    return _at(value, digits, Fraction(1, 2))


def rounded_down(value: float | None, digits: int) -> float | None:
    """The low end of an interval: never above it."""
    return _at(value, digits, Fraction(0))


def rounded_up(value: float | None, digits: int) -> float | None:
    """The high end of an interval: never below it."""
    found = _at(None if value is None else -value, digits, Fraction(0))
    return None if found is None else -found


def _at(value: float | None, digits: int, more: Fraction) -> float | None:
    if value is None or not math.isfinite(value):
        return value
    scale = Fraction(10) ** digits
    # The nearest float of a decimal below a float is not above that float.
    return float(math.floor(Fraction(value) * scale + more) / scale)


def _is_never_missing(node: exp.Coalesce, source: SqlText) -> bool:
    """Whether it is of a count or sum, not of a quotient, and by a number."""
    quotients = node.this.find_all(exp.Div, exp.Avg)
    return not any(quotients) and all(
        constant(other, source) is not None for other in node.expressions
    )
