"""Periods of an inner SELECT as days, where an outer one calculates with them or compares them.

In the engine periods are texts such as `2024-W02`. A function of days, and a comparison with a day,
take the first day of each.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from qserver.query.sealed import first_and_last
from qserver.query.sql.logic import is_text
from qserver.query.sql.shell.relations import Value

_FUNCTIONS: Final = (
    *(exp.DateTrunc, exp.TimestampTrunc, exp.Extract, exp.LastDay, exp.DateDiff, exp.TimeToStr),
    *(exp.Dayname, exp.Monthname, exp.DayOfMonth, exp.DayOfYear),
)
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_DAYS: Final = frozenset({exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ})
_DAY_LETTERS: Final = len("0000-00-00")


def as_days(node: exp.Expr, parts: list[Value]) -> list[exp.Expr]:
    """The parts of an expression, its periods as days where it is about days."""
    is_compared = isinstance(node, _COMPARISONS) and any(_is_day(one.node) for one in parts)
    is_cast = isinstance(node, exp.Cast) and node.to.this in _DAYS
    if not (is_compared or is_cast or isinstance(node, _FUNCTIONS)):
        return [one.node for one in parts]
    return [
        _first_day(one) if one.course else _date(one.node) if _is_day(one.node) else one.node
        for one in parts
    ]


def _is_day(node: exp.Expr) -> bool:
    days = first_and_last(node.name) if is_text(node) else None
    return days is not None and len(node.name) == _DAY_LETTERS


def _date(node: exp.Expr) -> exp.Expr:
    return exp.cast(exp.cast(node, "VARCHAR"), "DATE")


def _first_day(value: Value) -> exp.Expr:
    """The first day of a period, by its name."""
    if all(len(name) == _DAY_LETTERS for name in value.course):
        return _date(value.node)
    days = [(name, first_and_last(name)) for name in value.course]
    ifs = [
        exp.If(this=exp.Literal.string(name), true=exp.Literal.string(str(of[0])))
        for name, of in days
        if of is not None
    ]
    return _date(exp.Case(this=exp.cast(value.node, "VARCHAR"), ifs=ifs))
