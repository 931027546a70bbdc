"""What follows from a label, a date or a number: its level, its longer period, or a part of either.

`region` above districts, `UPPER(name)`, `month(d)` and `date_trunc('month', d)`,
`EXTRACT(MONTH FROM d)`, and `age % 10` and other steps of a number.
Each is a table from values to sets of the attribute's values, for GROUP BY and for conditions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypedDict

from sqlglot import exp

from qserver.query.calendar.periods import Periods
from qserver.query.calendar.units import UNITS, Unit, first_day, longer, text_of
from qserver.query.domain import Attribute, decimal_text
from qserver.query.sql.attributes import Names
from qserver.query.sql.labels import is_of_labels, value_of
from qserver.query.sql.shaping.steps import STEPS, Steps

_FUNCTIONS: dict[type[exp.Expr], Unit] = {
    exp.Day: "day",
    exp.Week: "week",
    exp.Month: "month",
    exp.Quarter: "quarter",
    exp.Year: "year",
}
_TRUNCATIONS = (exp.DateTrunc, exp.TimestampTrunc)
_FORMATS: dict[str, Unit] = {"YYYY": "year", "YYYY-MM": "month"}
_FIRST_DAY = "YYYY-MM-DD"
"""Of TO_CHAR: by unit, or as the first day of whatever period the attribute has."""
_DAYS = frozenset({exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ})
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
CALLED = "called"
"""Key of what an EXTRACT is called in the text, where that told years apart in earlier versions."""
_LONGER_THAN_WEEKS = UNITS[UNITS.index("week") + 1 :]


class _Null(TypedDict):
    null: int
    missing: str


@dataclass(frozen=True)
class Derived:
    """The values that follow from those of an attribute, in order.

    Args:
        axis: the attribute.
        name: what it is called in messages.
        of: `text` without an order, `period` for longer periods, `number` for parts of dates and
            steps of numbers.
        masks: per value, as text, the mask of the attribute's values.
        places: per value where it stands in the order: the first day of a period, by
            `date.toordinal`, or the number. What has no place, such as `other`, is left out.
        unit: of longer periods.
        null: the mask of the attribute's values for which it is NULL.
        missing: what a missing value is called, where it may be named; else ''.
    """

    axis: int
    name: str
    of: Literal["text", "period", "number"]
    masks: dict[str, int]
    places: dict[str, int] | dict[str, Fraction]
    unit: Unit | None = None
    null: int = 0
    missing: str = ""


def is_of_calendar(node: exp.Expr) -> bool:
    """Whether an expression is a function that joins dates to longer periods."""
    if _is_day(node):
        return is_of_calendar(node.this.unnest())
    return isinstance(node, (*_FUNCTIONS, *_TRUNCATIONS, exp.ToChar))


def _is_day(node: exp.Expr) -> bool:
    """Whether it is a cast to the first day of a period."""
    return isinstance(node, exp.Cast) and node.args["to"].this in _DAYS


def is_derived(node: exp.Expr, names: Names) -> bool:
    """Whether an expression is one of these, right or wrong."""
    is_function = is_of_calendar(node) or isinstance(node, exp.Extract) or _is_steps(node, names)
    return is_function or _is_of_labels(node, names) or names.level(node) is not None


def _is_steps(node: exp.Expr, names: Names) -> bool:
    """Whether it calculates with one numeric attribute, and with numbers."""
    if not isinstance(node, STEPS):
        return False
    columns = list(node.find_all(exp.Column))
    if not columns or node.find(exp.AggFunc) or not all(map(names.is_known, columns)):
        return False
    axes = {None if names.level(column) else names.axis(column) for column in columns}
    return len(axes) == 1 and all(
        k is not None and names.domain.attributes[k].is_numeric for k in axes
    )


def _is_of_labels(node: exp.Expr, names: Names) -> bool:
    """Whether it is a function of labels; COALESCE and NULLIF may be of numbers, too."""
    if not isinstance(node, exp.Coalesce | exp.Nullif):
        return is_of_labels(node)
    columns = list(node.find_all(exp.Column))
    if node.find(exp.AggFunc, exp.Boolean) or not columns or not all(map(names.is_known, columns)):
        return False
    axes = {names.any_axis(column) for column in columns}
    return len(axes) == 1 and all(names.domain.attributes[k].kind == "labels" for k in axes)


def work_of(node: exp.Expr, names: Names) -> int:
    """How many steps it takes to make such an expression of each value of its attribute."""
    column = next(node.find_all(exp.Column), None)
    if column is None or not is_derived(node, names):
        return 0
    size = names.domain.sizes[names.any_axis(column)]
    return size * (sum(1 for _ in node.walk()) if isinstance(node, STEPS) else 1)


def derived(node: exp.Expr, names: Names, *, sealed_only: bool = False) -> Derived | None:
    """What an expression gives for each value of its attribute; None if it is none of these.

    A week belongs to the month, quarter and year of its Thursday. A value `other` that is not
    missing is one of its own, the last.

    Args:
        sealed_only: leave out the periods whose data have not arrived yet.

    Raises:
        SqlError: the attribute has no dates, or longer bins than asked for.
    """
    if (level := names.level(node)) is not None:
        axis, above = level
        masks = above.masks(other=_value_beside(axis, names))
        return Derived(axis, above.name, "text", masks, {}, **_null(axis, names))
    if isinstance(node, exp.Extract):
        return _part(node, names, sealed_only=sealed_only)
    if _is_of_labels(node, names):
        return _of_labels(node, names)
    if _is_steps(node, names):
        return _steps(node, names)
    if not is_of_calendar(node):
        return None
    as_days, node = _is_day(node), node.this.unnest() if _is_day(node) else node
    unit = _unit(node, names)
    as_days = as_days or _format(node) == _FIRST_DAY
    axis, attribute, periods = _dates(node, node.this.unnest(), unit, unit, names)
    n = attribute.n_sealed if sealed_only else attribute.size
    found, places = dict[str, int](), dict[str, int]()
    for i in range(min(n, attribute.n_regular)):
        number = _number(periods, i, unit)
        day = first_day(unit, number)
        text = day.isoformat() if as_days else text_of(unit, number)
        found[text] = found.get(text, 0) | 1 << i
        places[text] = day.toordinal()
    found = _with_other(found, axis, names)
    return Derived(axis, attribute.name, "period", found, places, unit, **_null(axis, names))


def remarks_on(root: exp.Expr, names: Names) -> tuple[str, ...]:
    """What to know of a text whose expressions can all be read: where it puts weeks and years."""
    nodes = list(root.find_all(exp.Func))
    found = (of(node, names) for of in (_remark, _of_all_years) for node in nodes)
    return tuple(dict.fromkeys(text for text in found if text))


def _remark(node: exp.Expr, names: Names) -> str:
    if _is_day(node):
        return ""  # what it casts is looked at by itself
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


def _of_all_years(node: exp.Expr, names: Names) -> str:
    """That MONTH(d) told years apart before; '' where there is one year, or it says EXTRACT."""
    called, column = node.meta.get(CALLED), node.args.get("expression")
    if not called or column is None or not names.is_known(column.unnest()):
        return ""
    attribute = names.domain.attributes[names.axis(column.unnest())]
    name, periods = attribute.name, attribute.periods
    last = min(attribute.n_sealed, attribute.n_regular) - 1
    if periods is None or last < 0:
        return ""
    if _number(periods, 0, "year") == _number(periods, last, "year"):
        return ""
    return (
        f"{called}({name}) is a number of all years together, as in SQL; earlier versions told "
        f"years apart, as DATE_TRUNC('{called.lower()}', {name}) does."
    )


def _of_labels(node: exp.Expr, names: Names) -> Derived:
    """A function of the labels of one attribute or level."""
    columns = list(node.find_all(exp.Column))
    found = {_labels_of(column, names) for column in columns}
    if len(found) > 1:
        raise names.source.refuse("use the labels of one attribute here", node)
    axis, name, pairs = found.pop()
    values, null = list[tuple[str | int, int]](), 0
    for label, mask in pairs:
        value = value_of(node, label, names.source)
        if value is None:
            null |= mask
        else:
            values.append((value, mask))
    is_number = bool(values) and isinstance(values[0][0], int)
    if any(isinstance(value, int) != is_number for value, _ in values):
        raise names.source.refuse("give either texts or numbers", node)
    if is_number:
        values.sort()
    masks, places = dict[str, int](), dict[str, int]()
    for value, mask in values:
        masks[str(value)] = masks.get(str(value), 0) | mask
        if isinstance(value, int):
            places[str(value)] = value
    return Derived(axis, name, "number" if is_number else "text", masks, places, null=null)


def _labels_of(
    column: exp.Column, names: Names
) -> tuple[int, str, tuple[tuple[str | None, int], ...]]:
    """The attribute of a column, what it is called, and its labels with their masks."""
    axis = names.any_axis(column)
    attribute, level = names.domain.attributes[axis], names.level(column)
    if attribute.kind != "labels":
        raise names.source.refuse(
            f"use functions of texts with labels: `{attribute.name}` has none", column
        )
    if level is None:
        found = {label: 1 << i for i, label in enumerate(attribute.value_names)}
    else:
        found = level[1].masks(other=attribute.other if attribute.has_other else None)
    null = names.null(axis)
    pairs = tuple((None if mask == null else label, mask) for label, mask in found.items())
    return axis, attribute.name if level is None else level[1].name, pairs


def _steps(node: exp.Expr, names: Names) -> Derived:
    """FLOOR(age / 10) and the like: neighbouring bins with the same value."""
    axis = names.axis(next(node.find_all(exp.Column)))
    attribute = names.domain.attributes[axis]
    values = Steps(node, attribute, names.source).values()
    masks, places = dict[str, int](), dict[str, Fraction]()
    for i in sorted(range(len(values)), key=values.__getitem__):
        text = decimal_text(values[i])
        masks[text] = masks.get(text, 0) | 1 << i
        places[text] = values[i]
    masks = _with_other(masks, axis, names)
    return Derived(axis, attribute.name, "number", masks, places, **_null(axis, names))


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
    masks = _with_other(masks, axis, names)
    return Derived(axis, attribute.name, "number", masks, places, **_null(axis, names))


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


def _with_other(masks: dict[str, int], axis: int, names: Names) -> dict[str, int]:
    if (other := _value_beside(axis, names)) is not None:
        masks[other] = 1 << names.domain.attributes[axis].n_regular
    return masks


def _value_beside(axis: int, names: Names) -> str | None:
    """The value beside all others, where it is not that of missing ones."""
    attribute = names.domain.attributes[axis]
    return attribute.other if attribute.has_other and not names.null(axis) else None


def _null(axis: int, names: Names) -> _Null:
    """What stands for a missing value of an attribute."""
    null = names.null(axis)
    return _Null(null=null, missing=names.domain.attributes[axis].other if null else "")


def _unit(node: exp.Expr, names: Names) -> Unit:
    if type(node) in _FUNCTIONS:
        return _FUNCTIONS[type(node)]
    if isinstance(node, exp.ToChar):
        return _unit_of_format(node, names)
    said = node.args.get("unit")
    text = "" if said is None else said.name.lower()
    for unit in UNITS:
        if unit == text:
            return unit
    choices = ", ".join(f"'{unit}'" for unit in UNITS)
    raise names.source.refuse(f"truncate to one of {choices}", node)


def _format(node: exp.Expr) -> str:
    said = node.args.get("format") if isinstance(node, exp.ToChar) else None
    return said.name.upper() if isinstance(said, exp.Literal) else ""


def _unit_of_format(node: exp.ToChar, names: Names) -> Unit:
    """The unit that TO_CHAR writes a date in; with the day it is that of the attribute."""
    column, said = node.this.unnest(), _format(node)
    if said == _FIRST_DAY and isinstance(column, exp.Column):
        periods = names.domain.attributes[names.axis(column)].periods
        return "day" if periods is None else periods.every
    if said not in _FORMATS:
        raise names.source.refuse(
            "write dates as 'YYYY', 'YYYY-MM' or 'YYYY-MM-DD'",
            node,
            hint="Nearest: DATE_TRUNC('month', ...).",
        )
    return _FORMATS[said]


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
