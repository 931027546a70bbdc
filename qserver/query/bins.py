"""Numeric conditions on binned attributes: only whole bins can be asked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from fractions import Fraction

from qserver.errors import QueryError
from qserver.query.domain import Attribute, decimal_text


def value_range(
    attribute: Attribute,
    low: Fraction | None,
    high: Fraction | None,
    *,
    name: str,
    closed: bool = False,
) -> range:
    """Bins with low <= value < high, or value <= high where `closed` (whole numbers).

    Values beyond the outer edges match nothing, since none is recorded there.

    Raises:
        QueryError: an end cuts through a bin; the message gives the nearest two that do not.
    """
    whole = attribute.kind == "integer"
    first, last = attribute.edges[0], attribute.edges[-1]
    start = first if low is None else Fraction(-(-low // 1)) if whole else low
    stop = last if high is None else _open_end(high, whole=whole, closed=closed)
    start, stop = min(max(start, first), last), min(max(stop, first), last)
    if stop <= start:
        return range(0)
    inner = range(bisect_left(attribute.edges, start), bisect_right(attribute.edges, stop) - 1)
    outer = range(bisect_right(attribute.edges, start) - 1, bisect_left(attribute.edges, stop))
    if inner != outer:
        raise QueryError(
            name,
            f"not cut through a bin of `{attribute.name}`",
            hint=_nearest(attribute, inner, outer),
        )
    return inner


def one_value(attribute: Attribute, value: Fraction, *, name: str) -> int:
    """Index of the bin that holds `value` and no other value.

    Raises:
        QueryError: the value lies outside the edges, or shares its bin with others.
    """
    index = attribute.bin_of(value)
    if index is None or (attribute.kind == "integer" and value.denominator != 1):
        ends = f"{decimal_text(attribute.edges[0])} up to {decimal_text(attribute.edges[-1])}"
        raise QueryError(
            name,
            f"be a value of `{attribute.name}` ({ends}, the end excluded)",
            decimal_text(value),
        )
    low, high = attribute.edges[index], attribute.edges[index + 1]
    if attribute.kind == "integer" and high == low + 1:
        return index
    raise QueryError(
        name,
        f"not cut through a bin of `{attribute.name}`",
        hint=f"Its bin is {_shown(attribute, range(index, index + 1))}.",
    )


def _open_end(high: Fraction, *, whole: bool, closed: bool) -> Fraction:
    if not whole:
        return high
    return Fraction(high // 1 + 1) if closed else Fraction(-(-high // 1))


def _nearest(attribute: Attribute, inner: range, outer: range) -> str:
    inside = f" and {_shown(attribute, inner)}" if len(inner) > 0 else ""
    return f"The nearest that fit: {_shown(attribute, outer)}{inside}."


def _shown(attribute: Attribute, bins: range) -> str:
    low, high = attribute.edges[bins.start], attribute.edges[bins.stop]
    end = high - 1 if attribute.kind == "integer" else high
    return f'{{"between": [{_json_text(low)}, {_json_text(end)}]}}'


def _json_text(value: Fraction) -> str:
    text = decimal_text(value)
    return f'"{text}"' if "/" in text else text
