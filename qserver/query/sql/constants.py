"""Numbers in a text of SQL: literals and arithmetic on them, exactly."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from qserver.errors import QueryError
from qserver.query.numbers import MAX_DENOMINATOR, MAX_MAGNITUDE, exact_number
from qserver.query.sql.text import SqlText


def constant(node: exp.Expr, source: SqlText) -> Fraction | None:
    """The number that an expression without attributes and aggregates means, else None.

    Raises:
        SqlError: a number is out of range, or divided by zero.
    """
    found = _value(node, source)
    if found is None:
        return None
    if abs(found) > MAX_MAGNITUDE or found.denominator > MAX_DENOMINATOR:
        raise source.refuse("hold numbers up to 10^12 in size, to nine decimals", node)
    return found


def _value(node: exp.Expr, source: SqlText) -> Fraction | None:
    if isinstance(node, exp.Literal):
        return None if node.is_string else _literal(node, source)
    if isinstance(node, exp.Paren):
        return constant(node.this, source)
    if isinstance(node, exp.Neg):
        inner = constant(node.this, source)
        return None if inner is None else -inner
    if not isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return None
    left = constant(node.this, source)
    right = None if left is None else constant(node.expression, source)
    if left is None or right is None:
        return None
    return _calculated(node, left, right, source)


def _calculated(node: exp.Expr, left: Fraction, right: Fraction, source: SqlText) -> Fraction:
    if isinstance(node, exp.Add):
        return left + right
    if isinstance(node, exp.Sub):
        return left - right
    if isinstance(node, exp.Mul):
        return left * right
    if right == 0:
        raise source.refuse("not divide by zero", node)
    return left / right


def _literal(node: exp.Literal, source: SqlText) -> Fraction:
    try:
        return exact_number(node.this, "sql")
    except QueryError as exc:
        raise source.refuse(exc.condition, node) from exc
