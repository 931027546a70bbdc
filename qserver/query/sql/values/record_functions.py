"""Values derived from a record's: a level, a longer period, or an expression.

`region` above districts, `month(d)` and `date_trunc('month', d)`, `EXTRACT(MONTH FROM d)`,
`FLOOR(age / 10)` and other steps of a number, and any function of single values, such as
`UPPER(name)` and `age % 10`. Each is a table from values to sets of cells, for GROUP BY, for
conditions and for sums.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from qserver.query.calendar import UNITS, Periods, Unit, first_day, longer
from qserver.query.domain import Attribute
from qserver.query.labels import Level
from qserver.query.sql.attributes import Names
from qserver.query.sql.regions import Regions
from qserver.query.sql.values.expression_values import Beside, Derived, from_keys
from qserver.query.sql.values.point_values import EPOCH, PARTS, Near, is_point, on_grid
from qserver.query.sql.values.ranges import is_of_bins, values_on_bins

FUNCTIONS: dict[type[exp.Expr], Unit] = {
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
_CALCULATED = (exp.Func, exp.Binary, exp.Neg, exp.Escape)
_READ_ELSEWHERE = (
    *(exp.Case, exp.If, exp.AggFunc, exp.Connector, exp.And, exp.Or),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Dot),
    *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.Like, exp.ILike),
)
CALLED = "called"
"""Key of what an EXTRACT is called in the text, where that does not say that it is one."""
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_NEVER_TRUE = "A comparison with NULL is true of no record: IS NULL finds missing values."
_LONGER_THAN_WEEKS = UNITS[UNITS.index("week") + 1 :]


def is_of_calendar(node: exp.Expr) -> bool:
    """Whether an expression is a function that joins dates to longer periods."""
    if _is_day(node):
        return is_of_calendar(node.this.unnest())
    return isinstance(node, (*FUNCTIONS, *_TRUNCATIONS, exp.ToChar))


def _is_day(node: exp.Expr) -> bool:
    """Whether it is a cast to the first day of a period."""
    return isinstance(node, exp.Cast) and node.args["to"].this in _DAYS


def is_derived(node: exp.Expr, names: Names) -> bool:
    """Whether an expression is meant as one of these."""
    return (
        is_of_calendar(node)
        or isinstance(node, exp.Extract)
        or _is_calculated(node, names)
        or names.level(node) is not None
    )


def _is_calculated(node: exp.Expr, names: Names) -> bool:
    """Whether it is calculated from attributes' values; COALESCE only from single values."""
    if not isinstance(node, _CALCULATED) or isinstance(node, _READ_ELSEWHERE):
        return False
    columns = list(node.find_all(exp.Column))
    if not columns or node.find(exp.AggFunc, exp.Query) or not all(map(names.is_known, columns)):
        return False
    if not isinstance(node, exp.Coalesce | exp.Nullif):
        return True
    return not node.find(exp.Boolean) and all(is_point(column, names) for column in columns)


def derived(
    node: exp.Expr, names: Names, regions: Regions, *, near: Near = "keep"
) -> Derived | None:
    """The derived values of an expression; None for another.

    A week belongs to the month, quarter and year of its Thursday. A value `other` that is not
    missing is separate and last.

    Args:
        near: for numbers that are not small fractions.

    Raises:
        SqlError: the attribute has no dates, or longer bins than asked for.
    """
    if (level := names.level(node)) is not None:
        return _of_level(*level, names)
    if isinstance(node, exp.Extract):
        part = str(node.this.name).lower()
        if part not in (*PARTS, EPOCH):
            choices = ", ".join(one.upper() for one in (*PARTS, EPOCH))
            raise names.source.refuse(f"EXTRACT one of {choices}", node)
        _dates(node, node.expression.unnest(), PARTS.get(part, "year"), part, names)
    if is_of_calendar(node):
        return _of_calendar(node, names)
    if not _is_calculated(node, names):
        return None
    if is_of_bins(node, names):
        return values_on_bins(node, names, regions)
    return on_grid(node, names, regions, near=near)


def called(node: exp.Expr, names: Names) -> str:
    """The name of such an expression in messages."""
    if (level := names.level(node)) is not None:
        return level[1].name
    columns = {column.name for column in node.find_all(exp.Column)}
    return columns.pop() if len(columns) == 1 else names.source.source(node)


def _of_level(axis: int, level: Level, names: Names) -> Derived:
    """The groups of labels, in the order of the level; a missing one may be named."""
    texts = [level.groups[group] for group in level.group_of]
    found = from_keys((axis,), [*texts, *_beside(axis, names, of_texts=True)], names)
    order = dict.fromkeys((*level.groups, *found.regions))
    missing = names.domain.attributes[axis].other if found.null else ""
    return replace(found, regions={text: found.regions[text] for text in order}, missing=missing)


def _of_calendar(node: exp.Expr, names: Names) -> Derived:
    """Longer periods, by their names or first days."""
    as_days, node = _is_day(node), node.this.unnest() if _is_day(node) else node
    unit = _unit(node, names)
    as_days = as_days or _format(node) == _FIRST_DAY
    axis, attribute, periods = _dates(node, node.this.unnest(), unit, unit, names)
    days = [first_day(unit, _number(periods, i, unit)) for i in range(attribute.n_regular)]
    keys = [*days, *_beside(axis, names)]
    return from_keys((axis,), keys, names, unit=unit, is_named=not as_days)


def _beside(axis: int, names: Names, *, of_texts: bool = False) -> list[str | Beside | None]:
    """The value besides all others, if any."""
    attribute = names.domain.attributes[axis]
    other = attribute.other if of_texts else Beside(axis)
    return [None if names.null(axis) else other] * attribute.has_other


def truth_of(node: exp.Expr, names: Names, regions: Regions) -> Derived | None:
    """A condition on single values, evaluated by the engine; None for another.

    Raises:
        SqlError: it names wide bins, or cannot be evaluated.
    """
    if node.find(exp.AggFunc, exp.Query):
        return None
    for column in node.find_all(exp.Column):
        names.any_axis(column)  # raises if it names no attribute
    found = on_grid(node, names, regions)
    others = {names.domain.attributes[axis].other for axis in found.axes}
    is_truth = found.of == "truth" or found.regions.keys() <= others
    return replace(found, of="truth") if is_truth else None


def remarks_on(root: exp.Expr, names: Names) -> tuple[str, ...]:
    """Remarks on a text: on weeks and years, and on conditions with NULL; a sentence each."""
    nodes = list(root.find_all(exp.Func))
    found = [of(node, names) for of in (_remark, _of_all_years) for node in nodes]
    found += [_on_null(node, names) for node in root.find_all(exp.Null)]
    return tuple(dict.fromkeys(text for text in found if text))


def _on_null(node: exp.Null, names: Names) -> str:
    above = node.parent
    if isinstance(above, (*_COMPARED, exp.In)):
        return _NEVER_TRUE
    if not isinstance(above, exp.Is) or isinstance(above.parent, exp.Not):
        return ""
    if not names.is_known(above.this):
        return ""
    attribute = names.domain.attributes[names.any_axis(above.this)]
    if attribute.null:
        return ""
    if attribute.missing != "drop":
        return f"`{attribute.name}` has no NULL: what has no label is '{attribute.other}'."
    return f"No record that counts lacks a value of `{attribute.name}`: those were dropped."


def _remark(node: exp.Expr, names: Names) -> str:
    if _is_day(node):
        return ""  # what it casts is looked at by itself
    if isinstance(node, exp.Extract):
        column, unit = node.expression.unnest(), PARTS.get(node.this.name.lower(), "day")
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
    """A remark that MONTH(d) joins years; '' for one year, or for EXTRACT."""
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
        f"{called}({name}) is a number of all years together, as in SQL; "
        f"DATE_TRUNC('{called.lower()}', {name}) tells years apart."
    )


def _number(periods: Periods, i: int, unit: Unit) -> int:
    number = periods.start + i
    return number if unit == periods.every else longer(periods.every, number, unit)


def _unit(node: exp.Expr, names: Names) -> Unit:
    if type(node) in FUNCTIONS:
        return FUNCTIONS[type(node)]
    if isinstance(node, exp.ToChar):
        return _unit_of_format(node, names)
    said = node.args.get("unit")
    text = "" if said is None else said.name.lower()
    for unit in UNITS:
        if unit == text:
            return unit
    choices = ", ".join(f"'{unit}'" for unit in UNITS)
    finest = next((a.name for a in names.domain.attributes if a.periods), "time")
    words = f"truncate to one of {choices}: a day is the finest time of `{finest}`"
    raise names.source.refuse(words, node)


def _format(node: exp.Expr) -> str:
    said = node.args.get("format") if isinstance(node, exp.ToChar) else None
    return said.name.upper() if isinstance(said, exp.Literal) else ""


def _unit_of_format(node: exp.ToChar, names: Names) -> Unit:
    """The unit of TO_CHAR's format; with the day it is the attribute's."""
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
    """The attribute of a calendar function, with its bins.

    Args:
        unit: not shorter than these.
        what: the function's name.
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
            f"take no less than a {periods.every} of `{attribute.name}`: its bins are as long", node
        )
    return axis, attribute, periods
