"""What follows from a label or a date: its level, its longer period, or a part of its date.

`region` above districts, `month(d)` and `date_trunc('month', d)`, and `EXTRACT(MONTH FROM d)`.
Each is a table from values to sets of the attribute's values, for GROUP BY and for conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from qserver.query.calendar.periods import Periods
from qserver.query.calendar.units import UNITS, Unit, first_day, longer, text_of
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
_PARTS: dict[str, Unit] = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "week",
    "day": "day",
    "dow": "day",
    "isodow": "day",
}
"""Per part of EXTRACT the unit of time within which it does not change."""
_LONGER_THAN_WEEKS = UNITS[UNITS.index("week") + 1 :]


@dataclass(frozen=True)
class Derived:
    """The values that follow from those of an attribute, in order.

    Args:
        axis: the attribute.
        name: what it is called in messages.
        of: `text` without an order, `period` for longer periods, `number` for parts of dates.
        masks: per value, as text, the mask of the attribute's values.
        places: per value where it stands in the order: the first day of a period, by
            `date.toordinal`, or the number. What has no place, such as `other`, is left out.
        unit: of longer periods.
    """

    axis: int
    name: str
    of: Literal["text", "period", "number"]
    masks: dict[str, int]
    places: dict[str, int]
    unit: Unit | None = None


def is_of_calendar(node: exp.Expr) -> bool:
    """Whether an expression is a function that joins dates to longer periods."""
    return isinstance(node, (*_FUNCTIONS, *_TRUNCATIONS))


def is_derived(node: exp.Expr, names: Names) -> bool:
    """Whether an expression is one of these, right or wrong."""
    is_function = is_of_calendar(node) or isinstance(node, exp.Extract)
    return is_function or names.level(node) is not None


def derived(node: exp.Expr, names: Names, *, sealed_only: bool = False) -> Derived | None:
    """What an expression gives for each value of its attribute; None if it is none of these.

    A week belongs to the month, quarter and year of its Thursday. The value `other` is one of its
    own, the last.

    Args:
        sealed_only: leave out the periods whose data have not arrived yet.

    Raises:
        SqlError: the attribute has no dates, or longer bins than asked for.
    """
    if (level := names.level(node)) is not None:
        axis, above = level
        attribute = names.domain.attributes[axis]
        masks = above.masks(other=attribute.other if attribute.has_other else None)
        return Derived(axis, above.name, "text", masks, {})
    if isinstance(node, exp.Extract):
        return _part(node, names, sealed_only=sealed_only)
    if not is_of_calendar(node):
        return None
    unit = _unit(node, names)
    axis, attribute, periods = _dates(node, node.this.unnest(), unit, unit, names)
    n = attribute.n_sealed if sealed_only else attribute.size
    found, places = dict[str, int](), dict[str, int]()
    for i in range(min(n, attribute.n_regular)):
        number = _number(periods, i, unit)
        text = text_of(unit, number)
        found[text] = found.get(text, 0) | 1 << i
        places[text] = first_day(unit, number).toordinal()
    return Derived(axis, attribute.name, "period", _with_other(found, attribute), places, unit)


def remarks_on(root: exp.Expr, names: Names) -> tuple[str, ...]:
    """What to know of a text whose expressions can all be read: where it puts its weeks."""
    found = (_remark(node, names) for node in root.find_all(exp.Func))
    return tuple(dict.fromkeys(text for text in found if text))


def _remark(node: exp.Expr, names: Names) -> str:
    if isinstance(node, exp.Extract):
        column, unit = node.expression.unnest(), _PARTS.get(node.this.name.lower(), "day")
    elif is_of_calendar(node):
        column, unit = node.this.unnest(), _unit(node, names)
    else:
        return ""
    if not names.is_known(column) or names.level(column) is not None:
        return ""
    periods = names.domain.attributes[names.axis(column)].periods
    if periods is None or periods.every != "week" or unit not in _LONGER_THAN_WEEKS:
        return ""
    return f"Each week counts in the {unit} of its Thursday."


def _part(node: exp.Extract, names: Names, *, sealed_only: bool) -> Derived:
    """EXTRACT(part FROM attribute)."""
    part = node.this.name.lower()
    if part not in _PARTS:
        choices = ", ".join(p.upper() for p in _PARTS)
        raise names.source.refuse(f"EXTRACT one of {choices}", node)
    axis, attribute, periods = _dates(node, node.expression.unnest(), _PARTS[part], part, names)
    n = attribute.n_sealed if sealed_only else attribute.size
    found = dict[int, int]()
    for i in range(min(n, attribute.n_regular)):
        value = _value(part, periods, i)
        found[value] = found.get(value, 0) | 1 << i
    masks = {str(value): found[value] for value in sorted(found)}
    places = {text: int(text) for text in masks}
    return Derived(axis, attribute.name, "number", _with_other(masks, attribute), places)


def _value(part: str, periods: Periods, i: int) -> int:
    day = first_day(_PARTS[part], _number(periods, i, _PARTS[part]))
    match part:
        case "year":
            return day.year
        case "quarter":
            return (day.month - 1) // 3 + 1
        case "month":
            return day.month
        case "week":
            return day.isocalendar().week
        case "day":
            return day.day
        case "dow":
            return day.isoweekday() % 7  # Sunday is 0
        case _:
            return day.isoweekday()


def _number(periods: Periods, i: int, unit: Unit) -> int:
    number = periods.start + i
    return number if unit == periods.every else longer(periods.every, number, unit)


def _with_other(masks: dict[str, int], attribute: Attribute) -> dict[str, int]:
    if attribute.has_other:
        masks[attribute.other] = 1 << attribute.n_regular
    return masks


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


def _dates(
    node: exp.Expr, column: exp.Expr, unit: Unit, what: str, names: Names
) -> tuple[int, Attribute, Periods]:
    """The attribute that a function of the calendar is of, with its bins.

    Args:
        unit: what may not be shorter than these.
        what: the function's own word.
    """
    if not isinstance(column, exp.Column):
        raise names.source.refuse(f"take the {what} of an attribute of dates or periods", node)
    axis = names.axis(column)
    attribute = names.domain.attributes[axis]
    periods = attribute.periods
    if periods is None:
        raise names.source.refuse(
            f"take the {what} of an attribute of dates or calendar periods, not of "
            f"`{attribute.name}`",
            node,
        )
    if UNITS.index(unit) < UNITS.index(periods.every):
        raise names.source.refuse(
            f"take no less than a {periods.every} of `{attribute.name}`: its bins are as long",
            node,
        )
    return axis, attribute, periods
