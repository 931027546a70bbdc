"""The value of an expression on each point of its attributes' grid, by the engine.

A point is one value of each: a label, a whole number, a day. A missing value is NULL. The engine
sees only names and values of the domain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from itertools import product
from math import ceil, isfinite, lcm, prod
from typing import Literal

from sqlglot import exp

from qserver.errors import CapacityError, EngineError, SqlError
from qserver.query.calendar import UNITS, Unit, first_day
from qserver.query.domain import Attribute
from qserver.query.sql.attributes import Names, quoted
from qserver.query.sql.engine.run import Table, run
from qserver.query.sql.logic import above
from qserver.query.sql.regions import Regions
from qserver.query.sql.select import written
from qserver.query.sql.values.expression_values import (
    Beside,
    Derived,
    Value,
    check_quotients,
    from_keys,
)
from qserver.query.sql.values.ranges import is_of_bins, values_on_bins

MOST_POINTS = 1 << 18
SMALLEST_PART = 1 << 12
"""Numbers that are no decimals are taken if they have at most this denominator."""
Near = Literal["keep", "round", "refuse"]
"""What becomes of a number that is no small fraction: as it is, the nearest small one, or none."""
_OF_NUMBERS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Floor, exp.Ceil),
    *(exp.Round, exp.Trunc, exp.WidthBucket, exp.Abs, exp.Sign, exp.Sqrt, exp.Pow, exp.Ln, exp.Exp),
)
_PRECISION, _PARTS_OF_ERROR = 1 << 48, 1 << 20
PARTS: dict[str, Unit] = {
    "year": "year",
    "isoyear": "week",
    "quarter": "quarter",
    "month": "month",
    "week": "week",
    "day": "day",
    "doy": "day",
    "dow": "day",
    "isodow": "day",
}
"""Per part of EXTRACT the unit of time within which it does not change."""
EPOCH = "epoch"
"""The part of EXTRACT that is the seconds from 1970 to the first day of a period."""
_UNITS = (exp.Year, exp.Quarter, exp.Month, exp.Monthname, exp.Week)
_OF_TEXTS = (
    *(exp.Upper, exp.Lower, exp.Initcap, exp.Trim, exp.Left, exp.Right, exp.Substring, exp.Reverse),
    *(exp.Replace, exp.Length, exp.StrPosition, exp.SplitPart, exp.RegexpLike, exp.Contains),
)


@dataclass(frozen=True)
class _Column:
    """The values of an attribute or level as a column; at `beside` it has none of the type."""

    axis: int
    name: str
    type: str
    values: Sequence[object]
    beside: int | None = None


def is_point(column: exp.Column, names: Names) -> bool:
    """Whether each value of an attribute is one text, number or day; so are those of a level."""
    attribute = names.domain.attributes[names.any_axis(column)]
    if attribute.is_numeric:
        return attribute.kind == "integer" and attribute.n_regular == (
            attribute.edges[-1] - attribute.edges[0]
        )
    return attribute.periods is None or attribute.periods.every == "day"


def on_grid(node: exp.Expr, names: Names, regions: Regions, *, near: Near = "keep") -> Derived:
    """The values of an expression of one record.

    Args:
        near: for numbers that are not small fractions.

    Raises:
        SqlError: it names wide bins, or cannot be evaluated.
        CapacityError: it has too many points, or is too costly to evaluate.
    """
    return names.remembered(near, node, lambda: _on_grid(node, names, regions, near))


def _on_grid(node: exp.Expr, names: Names, regions: Regions, near: Near) -> Derived:
    check_quotients(node, names)
    found = exp.select(node.copy())
    columns = [
        _column(part, names, regions)
        for part in list(found.walk(bfs=False, prune=lambda one: _is_column(one, names)))
        if _is_column(part, names)
    ]
    axes = tuple(dict.fromkeys(column.axis for column in columns))  # in the order of the text
    sizes = tuple(names.domain.sizes[axis] for axis in axes)
    if prod(sizes) > MOST_POINTS:
        raise CapacityError(
            f"An expression of several attributes has at most {MOST_POINTS:,} values of them "
            f"together, `{names.source.source(node)}` has {prod(sizes):,}."
        )
    regions.take(prod(sizes) * (1 + len(columns)))
    beside = {one.axis: one.beside for one in columns if one.beside is not None}
    tables = [
        _table(axis, {one.name: one for one in columns if one.axis == axis}, beside.get(axis))
        for axis in axes
    ]
    try:
        rows = run(_query(found, axes, names), tables)
    except EngineError as exc:
        raise names.source.refuse(exc.condition, node) from exc
    return _read({row[0]: row[1] for row in rows}, axes, beside, node, names, near)


def _is_column(node: exp.Expr, names: Names) -> bool:
    """Whether it is an attribute, or constant on each of its bins."""
    if isinstance(node, exp.Column):
        return True
    columns = list(node.find_all(exp.Column))
    is_wide = is_of_bins(node, names) and not all(is_point(one, names) for one in columns)
    return is_wide and len({names.axis(one) for one in columns}) == 1


def _check_kind(column: exp.Column, names: Names) -> None:
    """Raise SqlError for a function of numbers on labels, or of texts on others."""
    attribute, outer = names.domain.attributes[names.any_axis(column)], above(column)
    if isinstance(outer, _OF_NUMBERS) and attribute.kind == "labels":
        raise names.source.refuse(
            f"calculate with numbers: `{attribute.name}` has labels", column.parent or column
        )
    is_first = isinstance(outer, _OF_TEXTS) and outer.this.unnest() is column
    if is_first and attribute.kind != "labels":
        raise names.source.refuse(
            f"use functions of texts with labels: `{attribute.name}` has none", column
        )


def fixed(node: exp.Expr, names: Names) -> str | None:
    """The value of an expression without attributes; raises SqlError as `on_grid` does."""
    found = on_grid(node, names, Regions(()))
    return next(iter(found.regions), None)


def _table(axis: int, columns: Mapping[str, _Column], beside: int | None) -> Table:
    """The columns of an attribute, without values that do not fit."""
    values = [one.values for one in columns.values()]
    rows = enumerate(zip(*values, strict=True))
    return Table(
        f"t{axis}",
        ("i", *columns),
        ("INTEGER", *(one.type for one in columns.values())),
        tuple((i, *row) for i, row in rows if i != beside),
    )


def _column(node: exp.Expr, names: Names, regions: Regions) -> _Column:
    """The column that replaces an attribute, a level or a step in the statement."""
    if isinstance(node, exp.Column):
        _check_kind(node, names)
        found = _of_attribute(node, names)
    else:
        found = _of_step(node, names, regions)
    node.replace(exp.column(found.name, f"t{found.axis}"))
    return found


def _of_attribute(column: exp.Column, names: Names) -> _Column:
    axis, level = names.any_axis(column), names.level(column)
    attribute = names.domain.attributes[axis]
    null, n = names.null(axis), attribute.n_regular
    rest: list[str | None] = [None if null else attribute.other] * attribute.has_other
    if level is not None:
        texts = [level[1].groups[group] for group in level[1].group_of]
        return _Column(axis, f"level {level[1].name}", "VARCHAR", [*texts, *rest])
    beside = n if rest and not null else None
    periods = attribute.periods
    by_first = counts_by_first_day(above(column))
    unit = unit_of_part(column)
    if periods is not None and (by_first or UNITS.index(unit) >= UNITS.index(periods.every)):
        # A week is where its Thursday is.
        later = 3 * (periods.every == "week" and not by_first)
        days = [first_day("day", day + later) for day in periods.edges[:-1]]
        return _Column(axis, "own", "DATE", [*days, *rest], beside)
    if not is_point(column, names):
        raise _wide(column, attribute, names)
    if attribute.is_numeric:
        numbers = [int(low) for low in attribute.edges[:-1]]
        return _Column(axis, "own", "BIGINT", [*numbers, *rest], beside)
    return _Column(axis, "own", "VARCHAR", [*attribute.value_names[:n], *rest])


def _of_step(node: exp.Expr, names: Names, regions: Regions) -> _Column:
    """A value that is constant on each bin, such as FLOOR(income / 1000)."""
    found = values_on_bins(node, names, regions)
    [axis] = found.axes
    size = names.domain.sizes[axis]
    is_whole = all(number.denominator == 1 for number in found.places.values())
    values: list[object] = [None] * size
    for text, number in found.places.items():
        for i in range(size):
            if any(box.get(axis, -1) >> i & 1 for box in found.regions[text]):
                values[i] = int(number) if is_whole else float(number)
    kind, has_other = "BIGINT" if is_whole else "DOUBLE", len(found.regions) > len(found.places)
    return _Column(axis, node.sql(), kind, values, size - 1 if has_other else None)


def counts_by_first_day(node: exp.Expr | None) -> bool:
    """Whether a calculation on a period uses its first day: seconds, moves and steps."""
    if isinstance(node, exp.Extract):
        return str(node.this.name).lower() == EPOCH
    if isinstance(node, exp.Add | exp.Sub):
        return isinstance(node, exp.Sub) or isinstance(node.expression, exp.Interval)
    return isinstance(node, exp.Anonymous) and node.name.upper() == "TIME_BUCKET"


def unit_of_part(column: exp.Column) -> Unit:
    """The unit of time within which a part of a date is constant; else a day."""
    outer = above(column)
    said = outer.this if isinstance(outer, exp.Extract) else outer and outer.args.get("unit")
    word = type(outer).__name__ if isinstance(outer, _UNITS) else said.name if said else ""
    return PARTS.get(word.lower().removesuffix("name"), "day")


def _wide(column: exp.Column, attribute: Attribute, names: Names) -> SqlError:
    """The refusal of an attribute whose bins hold several values."""
    if attribute.periods is not None:
        every = attribute.periods.every
        return names.source.refuse(
            f"take no less than a {every} of `{attribute.name}`: its bins are as long", column
        )
    edges = attribute.edges
    wide = next(
        i
        for i in range(attribute.n_regular)
        if attribute.kind != "integer" or edges[i + 1] - edges[i] != 1
    )
    return names.source.refuse(
        f"be the same on all of a bin of `{attribute.name}`",
        column,
        hint=f"Within {attribute.value_names[wide]} it may differ. Nearest: CASE WHEN "
        f"{quoted(attribute.name)} >= ... THEN ... END.",
    )


def _query(found: exp.Select, axes: Sequence[int], names: Names) -> exp.Expr:
    """The SELECT with the points' numbers and tables, and with what DuckDB means otherwise."""
    kinds = (exp.Concat, exp.ConcatWs, exp.Like, exp.ILike, exp.SimilarTo)
    for part in reversed(list(found.find_all(*kinds))):  # from the innermost on
        if isinstance(part, exp.Concat | exp.ConcatWs):
            part.set("coalesce", True)  # NULL is left out, as in PostgreSQL
        elif isinstance(part, exp.SimilarTo):
            part.set("expression", exp.Literal.string(_similar(part.expression.name)))
        elif not isinstance(part.parent, exp.Escape):
            part.replace(exp.Escape(this=part.copy(), expression=exp.Literal.string("\\")))
    place: exp.Expr = exp.Literal.number(0)
    for axis in axes:
        size = exp.Literal.number(names.domain.sizes[axis])
        place = exp.Add(
            this=exp.Mul(this=exp.Paren(this=place), expression=size),
            expression=exp.column("i", f"t{axis}"),
        )
    found.set("expressions", [place, *found.expressions])
    for k, axis in enumerate(axes):
        table = exp.to_table(f"t{axis}")
        found = found.from_(table) if not k else found.join(table, join_type="cross")
    return found


def _similar(pattern: str) -> str:
    """A pattern of SIMILAR TO, where % is any text and _ one character, as a regular expression."""
    signs = {"%": ".*", "_": "."}
    return re.sub(r"\\.|[%_.^$]", lambda one: signs.get(one[0], f"\\{one[0][-1]}"), pattern)


def _read(
    values: Mapping[object, object],
    axes: tuple[int, ...],
    beside: Mapping[int, int],
    node: exp.Expr,
    names: Names,
    near: Near,
) -> Derived:
    """The values by the places of their points."""
    sizes = [names.domain.sizes[axis] for axis in axes]
    known = {value: _exact(value, node, names, near=near) for value in set(values.values())}
    exact = {at: known[value] for at, value in values.items()}
    numbers = [value for value in exact.values() if isinstance(value, Fraction)]
    error = Fraction(0)
    if near == "round" and lcm(*(value.denominator for value in numbers)) > SMALLEST_PART:
        exact, error = _rounded(exact)
    keys: list[Value | Beside | None] = [exact.get(place) for place in range(prod(sizes))]
    for place, point in enumerate(product(*map(range, sizes)) if beside else ()):
        no_value = [a for a, i in zip(axes, point, strict=True) if beside.get(a) == i]
        if no_value:
            keys[place] = Beside(no_value[0])
    return replace(from_keys(axes, keys, names), error=error)


def _rounded(exact: Mapping[object, Value | None]) -> tuple[dict[object, Value | None], Fraction]:
    """Numbers rounded to one small part, and the largest change, rounding errors included."""
    rounded = dict[object, Value | None]()
    most = Fraction(0)
    for at, value in exact.items():
        if isinstance(value, Fraction):
            rounded[at] = near = Fraction(round(value * SMALLEST_PART), SMALLEST_PART)
            most = max(most, abs(value - near) + abs(value) / _PRECISION)
    return rounded, Fraction(ceil(most * _PARTS_OF_ERROR), _PARTS_OF_ERROR)


def _exact(value: object, node: exp.Expr, names: Names, *, near: Near) -> Value | None:
    """A value of one type per kind: a number as a fraction, and a day without its midnight."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, date):
        return date.fromordinal(value.toordinal())
    if not isinstance(value, float):
        return value if isinstance(value, str | bool | Fraction) else None
    if not isfinite(value):
        raise names.source.refuse("have a number wherever it has a value", node)
    small = Fraction(value).limit_denominator(SMALLEST_PART)
    if float(small) == value or near != "refuse":
        return small if float(small) == value else Fraction(value)
    raise names.source.refuse(
        "give numbers that can be written out",
        node,
        hint=f"Nearest: ROUND({written(node, names.source)}, 2).",
    )
