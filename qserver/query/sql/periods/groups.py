"""Longer periods in GROUP BY: `month(week)` and `date_trunc('month', week)` mean the same."""

from __future__ import annotations

from sqlglot import exp

from qserver.query.calendar.units import UNITS, Unit, longer, text_of
from qserver.query.domain import Attribute
from qserver.query.sql.attributes import Names

_FUNCTIONS: dict[type[exp.Expr], Unit] = {
    exp.Day: "day",
    exp.Week: "week",
    exp.Month: "month",
    exp.Quarter: "quarter",
    exp.Year: "year",
}
_TRUNCATIONS = (exp.DateTrunc, exp.TimestampTrunc)


def is_of_calendar(node: exp.Expr) -> bool:
    """Whether an expression is a function of the calendar."""
    return isinstance(node, (*_FUNCTIONS, *_TRUNCATIONS))


def longer_periods(node: exp.Expr, names: Names) -> tuple[int, dict[str, int]] | None:
    """The attribute that a function of the calendar is of, and the mask of each longer period.

    A week belongs to the month, quarter and year of its Thursday. The periods are in the order of
    time; None if the expression is no such function.

    Raises:
        SqlError: the attribute has no periods of the calendar, or longer ones than asked for.
    """
    if not is_of_calendar(node):
        return None
    unit, column = _unit(node, names), node.this.unnest()
    if not isinstance(column, exp.Column):
        raise names.source.refuse("take the longer period of an attribute of periods", node)
    axis = names.axis(column)
    return axis, _masks(names.domain.attributes[axis], unit, node, names)


def _unit(node: exp.Expr, names: Names) -> Unit:
    if type(node) in _FUNCTIONS:
        return _FUNCTIONS[type(node)]
    said = node.args.get("unit")
    text = "" if said is None else said.name.lower()
    for unit in UNITS:
        if unit == text:
            return unit
    choices = ", ".join(f"'{unit}'" for unit in UNITS)
    raise names.source.refuse(f"truncate to one of {choices}", node)


def _masks(attribute: Attribute, unit: Unit, node: exp.Expr, names: Names) -> dict[str, int]:
    periods = attribute.periods
    if periods is None:
        raise names.source.refuse(
            f"take the {unit} of an attribute of calendar periods, not of `{attribute.name}`", node
        )
    if UNITS.index(unit) < UNITS.index(periods.every):
        raise names.source.refuse(
            f"group `{attribute.name}` by no less than its {periods.every}s", node
        )
    found: dict[str, int] = {}
    for i in range(attribute.n_sealed):
        number = periods.start + i
        whole = number if unit == periods.every else longer(periods.every, number, unit)
        name = text_of(unit, whole)
        found[name] = found.get(name, 0) | 1 << i
    return found
