"""What an expression is on each point of the grid of the attributes that it names, by the engine.

A point is one value of each: a label, a whole number, a day. A missing value is NULL. The engine
knows of the names and values of the domain, and of nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from itertools import product
from math import isfinite, prod
from typing import Literal, TypeVar

from sqlglot import exp

from qserver.errors import CapacityError, EngineError, SqlError
from qserver.query.calendar.units import UNITS, Unit, first_day
from qserver.query.domain import Attribute
from qserver.query.sql.attributes import Names, quoted
from qserver.query.sql.engine.run import Table, run
from qserver.query.sql.regions import ALL, NOTHING, Region, Regions
from qserver.query.sql.shaping.items import written

MOST_POINTS = 1 << 18
SMALLEST_PART = 1 << 12
"""Numbers that are no decimals are taken if they have at most this denominator."""
Kind = Literal["text", "number", "truth", "day"]
Near = Literal["keep", "round", "refuse"]
"""What becomes of a number that is no small fraction: as it is, the nearest small one, or none."""
_Value = str | bool | Fraction | date
_OF_NUMBERS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Floor, exp.Ceil),
    *(exp.Round, exp.Trunc, exp.WidthBucket, exp.Abs, exp.Sign, exp.Sqrt, exp.Pow, exp.Ln, exp.Exp),
)
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
_UNITS = (exp.Year, exp.Quarter, exp.Month, exp.Monthname, exp.Week)
_WHOLE = (exp.Floor, exp.Ceil, exp.Trunc, exp.IntDiv, exp.WidthBucket)
_OF_TEXTS = (
    *(exp.Upper, exp.Lower, exp.Initcap, exp.Trim, exp.Left, exp.Right, exp.Substring, exp.Reverse),
    *(exp.Replace, exp.Length, exp.StrPosition, exp.SplitPart, exp.RegexpLike, exp.Contains),
)


@dataclass(frozen=True)
class Beside:
    """The value of an attribute that is no number and no day."""

    axis: int


_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class OnGrid:
    """The values of an expression, each with the cells on which it has it.

    Args:
        axes: the attributes, in the order in which it names them.
        kind: what its values are; `text` where all are NULL.
        found: texts, numbers, truth values or days, in the order of the domain.
        null: the cells on which it is NULL.
        beside: the cells of which an attribute has a value that is no number and no day, by what
            that is called.
        error: most distance of a number from the true one.
    """

    axes: tuple[int, ...]
    kind: Kind
    found: Mapping[_Value, Region]
    null: Region
    beside: Mapping[str, Region]
    error: Fraction = Fraction(0)


@dataclass(frozen=True)
class _Column:
    """The values of an attribute or level as a column; at `beside` it has none of the type."""

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


def on_grid(node: exp.Expr, names: Names, regions: Regions, *, near: Near = "keep") -> OnGrid:
    """The values of an expression of one record.

    Args:
        near: of numbers that are no small fractions.

    Raises:
        SqlError: it names wide bins, or cannot be evaluated.
        CapacityError: it names too many points, or takes too much to evaluate.
    """
    return names.remembered(near, node, lambda: _on_grid(node, names, regions, near))


def _on_grid(node: exp.Expr, names: Names, regions: Regions, near: Near) -> OnGrid:
    columns = list(node.find_all(exp.Column, bfs=False))  # in the order of the text
    for column in columns:
        _check_kind(column, names)
    check_quotients(node, names)
    axes = tuple(dict.fromkeys(names.any_axis(column) for column in columns))
    sizes = tuple(names.domain.sizes[axis] for axis in axes)
    if prod(sizes) > MOST_POINTS:
        raise CapacityError(
            f"An expression of several attributes has at most {MOST_POINTS:,} values of them "
            f"together, `{names.source.source(node)}` has {prod(sizes):,}."
        )
    regions.take(prod(sizes) * (1 + len(columns)))
    tables, beside = _tables(axes, columns, names)
    try:
        rows = run(_query(node, axes, names), tables)
    except EngineError as exc:
        raise names.source.refuse(exc.condition, node) from exc
    values = {row[0]: row[1] for row in rows}
    return _read(values, axes, beside, node, names, near=near)


def _check_kind(column: exp.Column, names: Names) -> None:
    """Raise SqlError where a function of numbers is of labels, or one of texts of others."""
    attribute, above = names.domain.attributes[names.any_axis(column)], column.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    if isinstance(above, _OF_NUMBERS) and attribute.kind == "labels":
        raise names.source.refuse(
            f"calculate with numbers: `{attribute.name}` has labels", column.parent or column
        )
    is_first = isinstance(above, _OF_TEXTS) and above.this.unnest() is column
    if is_first and attribute.kind != "labels":
        raise names.source.refuse(
            f"use functions of texts with labels: `{attribute.name}` has none", column
        )


def check_quotients(node: exp.Expr, names: Names) -> None:
    """Raise SqlError at a quotient of whole numbers whose rest some systems drop."""
    for quotient in node.find_all(exp.Div):
        columns = list(quotient.find_all(exp.Column))
        above = quotient.find_ancestor(*_WHOLE, exp.Round)
        has_point = any("." in one.name for one in quotient.find_all(exp.Literal))
        is_real = any(names.domain.attributes[names.any_axis(c)].kind == "real" for c in columns)
        if columns and not has_point and not is_real and not isinstance(above, _WHOLE):
            shown = written(quotient, names.source)
            raise names.source.refuse(
                "say what becomes of the rest of a quotient",
                quotient,
                hint=f"Nearest: FLOOR({shown}), or {shown.replace('/', '//', 1)}.",
            )


def fixed(node: exp.Expr, names: Names) -> object:
    """The value of an expression without attributes; raises SqlError as `on_grid` does."""
    found = on_grid(node, names, Regions(()))
    return next(iter(found.found), None)


def _tables(
    axes: Sequence[int], columns: Iterable[exp.Column], names: Names
) -> tuple[list[Table], dict[int, int]]:
    """A table per attribute, of its columns; and per attribute the value that has no place."""
    by_axis: dict[int, dict[str, _Column]] = {axis: {} for axis in axes}
    for column in columns:
        by_axis[names.any_axis(column)][_name(column, names)] = _column(column, names)
    beside = {
        axis: one.beside
        for axis, found in by_axis.items()
        for one in found.values()
        if one.beside is not None
    }
    tables = [
        Table(
            f"t{axis}",
            ("i", *found),
            ("INTEGER", *(one.type for one in found.values())),
            tuple(
                row
                for row in zip(
                    range(names.domain.sizes[axis]),
                    *(one.values for one in found.values()),
                    strict=True,
                )
                if row[0] != beside.get(axis)
            ),
        )
        for axis, found in by_axis.items()
    ]
    return tables, beside


def _name(column: exp.Column, names: Names) -> str:
    level = names.level(column)
    return "own" if level is None else f"level {level[1].name}"


def _column(column: exp.Column, names: Names) -> _Column:
    axis, level = names.any_axis(column), names.level(column)
    attribute = names.domain.attributes[axis]
    null, n = names.null(axis), attribute.n_regular
    rest: list[str | None] = [None] * attribute.has_other
    if level is not None:
        texts = [level[1].groups[group] for group in level[1].group_of]
        return _Column("VARCHAR", [*texts, *([attribute.other] if rest and not null else rest)])
    periods = attribute.periods
    if periods is not None and UNITS.index(unit_of_part(column)) >= UNITS.index(periods.every):
        # A week is where its Thursday is.
        days = [first_day("day", day + 3 * (periods.every == "week")) for day in periods.edges[:-1]]
        return _Column("DATE", [*days, *rest], n if rest and not null else None)
    if not is_point(column, names):
        raise _wide(column, attribute, names)
    beside = n if rest and not null else None
    if attribute.is_numeric:
        return _Column("BIGINT", [*(int(low) for low in attribute.edges[:-1]), *rest], beside)
    texts = list(attribute.value_names)
    return _Column("VARCHAR", [*texts[:n], *([None] if null else texts[n:])])


def unit_of_part(column: exp.Column) -> Unit:
    """The unit of time within which what is taken of a date does not change; else a day."""
    above = column.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    said = above.this if isinstance(above, exp.Extract) else above and above.args.get("unit")
    word = type(above).__name__ if isinstance(above, _UNITS) else said.name if said else ""
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


def _query(node: exp.Expr, axes: Sequence[int], names: Names) -> exp.Expr:
    """The SELECT of the point's number and the expression, written anew."""

    found = exp.select(node.copy())
    kinds = (exp.Column, exp.Concat, exp.ConcatWs, exp.Like, exp.ILike, exp.SimilarTo)
    for part in reversed(list(found.find_all(*kinds))):  # from the innermost on
        if isinstance(part, exp.Column):
            part.replace(exp.column(_name(part, names), f"t{names.any_axis(part)}"))
        elif isinstance(part, exp.Concat | exp.ConcatWs):
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
    *,
    near: Near,
) -> OnGrid:
    """The values by the places of their points."""
    sizes = [names.domain.sizes[axis] for axis in axes]
    exact = {at: _exact(value, node, names, near=near) for at, value in values.items()}
    is_near = any(
        isinstance(v, float) and float(_number(exact[at])) != v for at, v in values.items()
    )
    keys = list[_Value | Beside | None]()
    for place, point in enumerate(product(*map(range, sizes))):
        no_value = [a for a, i in zip(axes, point, strict=True) if beside.get(a) == i]
        keys.append(Beside(no_value[0]) if no_value else exact.get(place))
    found = from_keys(axes, keys, names)
    return replace(found, error=Fraction(1, 2 * SMALLEST_PART)) if is_near else found


def from_keys(
    axes: tuple[int, ...], keys: Sequence[_Value | Beside | None], names: Names
) -> OnGrid:
    """The values by those of all points, the last attribute fastest; None is NULL."""
    sizes = [names.domain.sizes[axis] for axis in axes]
    regions: Mapping[object, Region] = (
        regions_of(axes, sizes, keys) if axes else dict.fromkeys(keys, ALL)
    )
    found = {value: region for value, region in regions.items() if isinstance(value, _Value)}
    kinds: dict[type, Kind] = {Fraction: "number", bool: "truth", date: "day"}
    return OnGrid(
        axes,
        kinds.get(type(next(iter(found), None)), "text"),
        found,
        regions.get(None, NOTHING),
        {
            names.domain.attributes[value.axis].other: region
            for value, region in regions.items()
            if isinstance(value, Beside)
        },
    )


def _number(value: object) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(0)


def _exact(value: object, node: exp.Expr, names: Names, *, near: Near) -> _Value | None:
    """A value of one type per kind: a number as a fraction, and a day without its midnight."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, date):
        return date.fromordinal(value.toordinal())
    if isinstance(value, float):
        return _small(value, node, names, near=near)
    return value if isinstance(value, str | bool | Fraction) else None


def _small(value: float, node: exp.Expr, names: Names, *, near: Near) -> Fraction:
    """The small fraction that a number stands for, or that is the nearest."""
    if not isfinite(value):
        raise names.source.refuse("have a number wherever it has a value", node)
    small = Fraction(value).limit_denominator(SMALLEST_PART)
    if float(small) == value:
        return small
    if near == "keep":
        return Fraction(value)
    if near == "round":
        return Fraction(round(value * SMALLEST_PART), SMALLEST_PART)
    raise names.source.refuse(
        "give numbers that can be written out",
        node,
        hint=f"Nearest: ROUND({written(node, names.source)}, 2).",
    )


def regions_of(
    axes: Sequence[int], sizes: Sequence[int], keys: Sequence[_Key]
) -> dict[_Key, Region]:
    """The points of each key as boxes; `keys` has one per point, the last attribute fastest."""
    [axis, *others], [size, *rest] = axes, sizes
    step = len(keys) // size
    masks = dict[_Key, dict[tuple[tuple[tuple[int, int], ...], ...], int]]()
    for i in range(size):
        part = keys[i * step : (i + 1) * step]
        inner = regions_of(others, rest, part) if others else {part[0]: ALL}
        for key, region in inner.items():
            by_region = masks.setdefault(key, {})
            boxes = tuple(tuple(box.items()) for box in region)
            by_region[boxes] = by_region.get(boxes, 0) | 1 << i
    everything = (1 << size) - 1
    return {
        key: tuple(
            dict(box) if mask == everything else {axis: mask, **dict(box)}
            for boxes, mask in by_region.items()
            for box in boxes
        )
        for key, by_region in masks.items()
    }
