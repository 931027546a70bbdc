"""The values of an expression of one record, each with the cells on which it has it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from itertools import groupby
from typing import Literal, TypeVar

from sqlglot import exp

from qserver.query.sql.attributes import Names
from qserver.query.sql.regions import ALL, NOTHING, Region
from qserver.query.sql.shaping.items import written

Kind = Literal["text", "number", "truth", "day"]
Value = str | bool | Fraction | date
_WHOLE = (exp.Floor, exp.Ceil, exp.Trunc, exp.IntDiv, exp.WidthBucket)


@dataclass(frozen=True)
class Beside:
    """The value of an attribute that is no number and no day."""

    axis: int


_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class Values:
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
    found: Mapping[Value, Region]
    null: Region
    beside: Mapping[str, Region]
    error: Fraction = Fraction(0)


def from_keys(axes: tuple[int, ...], keys: Sequence[Value | Beside | None], names: Names) -> Values:
    """The values by those of all points, the last attribute fastest; None is NULL."""
    sizes = [names.domain.sizes[axis] for axis in axes]
    regions: Mapping[object, Region] = (
        regions_of(axes, sizes, keys) if axes else dict.fromkeys(keys, ALL)
    )
    found = {value: region for value, region in regions.items() if isinstance(value, Value)}
    kinds: dict[type, Kind] = {Fraction: "number", bool: "truth", date: "day"}
    return Values(
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


def check_quotients(node: exp.Expr, names: Names) -> None:
    """Raise SqlError at a quotient of whole numbers whose rest some systems drop."""
    for quotient in node.find_all(exp.Div):
        columns = list(quotient.find_all(exp.Column))
        above = quotient.find_ancestor(*_WHOLE, exp.Round)
        has_point = any("." in one.name for one in quotient.find_all(exp.Literal))
        is_real = any(names.domain.attributes[names.any_axis(c)].kind == "real" for c in columns)
        if columns and not has_point and not is_real and not isinstance(above, _WHOLE):
            shown = written(quotient, names.source)
            kept = (
                f"{shown}.0" if isinstance(quotient.expression, exp.Literal) else f"1.0 * {shown}"
            )
            raise names.source.refuse(
                "say what becomes of the rest of a quotient",
                quotient,
                hint=f"Nearest: FLOOR({shown}) drops it, as PostgreSQL does; {kept} keeps it, as "
                "DuckDB does, where a cast to INT then rounds.",
            )


def regions_of(
    axes: Sequence[int], sizes: Sequence[int], keys: Sequence[_Key]
) -> dict[_Key, Region]:
    """The points of each key as boxes; `keys` has one per point, the last attribute fastest."""
    [axis, *others], [size, *rest] = axes, sizes
    if not others:
        return _of_one(axis, keys)
    step = len(keys) // size
    masks = dict[_Key, dict[tuple[tuple[tuple[int, int], ...], ...], int]]()
    for i in range(size):
        part = keys[i * step : (i + 1) * step]
        for key, region in regions_of(others, rest, part).items():
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


def _of_one(axis: int, keys: Sequence[_Key]) -> dict[_Key, Region]:
    """The values of one attribute of each key: neighbours with the same one are joined at once."""
    masks, at = dict[_Key, int](), 0
    for key, run in groupby(keys):
        n = sum(1 for _ in run)
        masks[key] = masks.get(key, 0) | ((1 << n) - 1) << at
        at += n
    everything = (1 << at) - 1
    return {key: ALL if mask == everything else ({axis: mask},) for key, mask in masks.items()}
