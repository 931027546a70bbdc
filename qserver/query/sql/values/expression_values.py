"""The values of an expression of one record, each with its cells."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from itertools import groupby
from typing import Literal, TypeVar

from sqlglot import exp

from qserver.query.calendar import Unit, number_of, text_of
from qserver.query.domain import decimal_text
from qserver.query.sql.attributes import Names
from qserver.query.sql.logic import Truth
from qserver.query.sql.regions import ALL, NOTHING, Region, Regions
from qserver.query.sql.select import written

Value = str | bool | Fraction | date
Of = Literal["text", "truth", "period", "number"]
_KINDS: dict[type, Of] = {Fraction: "number", bool: "truth", date: "period"}
_WHOLE = (exp.Floor, exp.Ceil, exp.Trunc, exp.IntDiv, exp.WidthBucket)


@dataclass(frozen=True)
class Beside:
    """An attribute's value that is neither a number nor a day."""

    axis: int


_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class Derived:
    """Derived values of some attributes, in order.

    Args:
        axes: the attributes, in the order in which an expression names them.
        of: `text` without an order, `truth`, `period` for days and longer periods, `number`.
        regions: per value, as text, its cells.
        places: per value its place in the order: the first day of a period, by `date.toordinal`, or
            the number. Values without a place, such as `other`, are left out.
        unit: of periods.
        null: cells with NULL.
        missing: the name of a missing value, or ''.
        error: most distance of a number from the true one.
    """

    axes: tuple[int, ...]
    of: Of
    regions: Mapping[str, Region]
    places: Mapping[str, Fraction]
    unit: Unit | None
    null: Region
    missing: str
    error: Fraction = Fraction(0)

    def where(self, true: Collection[str | None], asked: Truth, regions: Regions) -> Region:
        """The cells with a given truth of a condition.

        Args:
            true: values with a true condition; for NULL it is unknown unless included.
        """
        parts = [one for text, one in self.regions.items() if asked.holds(value=text in true)]
        of_null = asked.holds(value=None in true or None)
        return regions.either([*parts, *([self.null] if of_null else [])])


def from_keys(
    axes: tuple[int, ...],
    keys: Sequence[Value | Beside | None],
    names: Names,
    *,
    unit: Unit = "day",
    is_named: bool = False,
) -> Derived:
    """The values by those of all points, the last attribute fastest; None is NULL.

    Args:
        unit: of the periods that begin with days.
        is_named: whether they have names of periods, such as `2024-03`.
    """
    attributes = [names.domain.attributes[axis] for axis in axes]
    regions: Mapping[object, Region] = (
        regions_of(axes, [a.size for a in attributes], keys) if axes else dict.fromkeys(keys, ALL)
    )
    values = [value for value in regions if isinstance(value, Value)]
    of: Of = _KINDS.get(type(next(iter(values), None)), "text")
    found, places = dict[str, Region](), dict[str, Fraction]()
    for value in values if of == "text" else sorted(values):
        text = _text(value)
        if is_named and isinstance(value, date):
            text = text_of(unit, number_of(unit, value))
        found[text] = regions[value]
        if isinstance(value, Fraction | date):
            places[text] = value if isinstance(value, Fraction) else Fraction(value.toordinal())
    for key, region in regions.items():
        if isinstance(key, Beside):
            found[names.domain.attributes[key.axis].other] = region
    null = regions.get(None, NOTHING)
    has_labels = any(a.kind == "labels" for a in attributes)
    missing = next((a.other for a in attributes if null and not has_labels), "")
    return Derived(axes, of, found, places, unit if of == "period" else None, null, missing)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return decimal_text(value) if isinstance(value, Fraction) else str(value)


def check_quotients(node: exp.Expr, names: Names) -> None:
    """Raise SqlError at a quotient of whole numbers whose remainder some systems drop."""
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
                "say how a quotient of whole numbers is rounded",
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
