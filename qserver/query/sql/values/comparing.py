"""Compare what follows from an attribute, such as a month or a region, with constants."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from qserver.query.calendar.ends import check_sealed, first_and_last
from qserver.query.domain import Attribute
from qserver.query.sql.attributes import Names, constant, known_text
from qserver.query.sql.values.derived import Derived

_ORDERED: dict[type[exp.Expr], Callable[[Fraction, Fraction], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.eq,  # the caller takes the rest
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def compared_values(
    found: Derived, kind: type[exp.Expr], value: exp.Expr, names: Names
) -> set[str | None]:
    """The values for which a comparison with a constant holds; for <> those of =.

    Values without a place in the order, such as `other`, meet no comparison but = with their name.
    Where missing values have a name, = with it means IS NULL.

    Raises:
        SqlError: the value is none that it can have.
        PeriodNotSealedError: the periods that are named have no data yet.
    """
    value = value.unnest()
    is_equality = kind in (exp.EQ, exp.NEQ)
    text = value.name if isinstance(value, exp.Literal) and value.is_string else None
    if is_equality and text is not None:
        if text == found.missing != "" and text not in found.regions:
            return {None}
        if text == "" and found.of == "text" and text not in found.regions:
            return set()
    if is_equality and text is not None and (found.of == "text" or text in found.regions):
        true = {known_text(found.name, tuple(found.regions), text, value, names.source)}
    elif found.of == "truth" and is_equality and isinstance(value, exp.Boolean):
        true = {str(value.this).lower()}
    elif found.of in ("text", "truth"):
        raise names.source.refuse(f"compare `{found.name}` by =, <>, IN or LIKE with texts", value)
    else:
        place = _place(found, value, names, is_equality=is_equality)
        holds = _ORDERED[kind]
        true = {text for text, at in found.places.items() if holds(Fraction(at), place)}
    if found.of == "period" and len(found.axes) == 1:
        [axis] = found.axes
        everything = (1 << names.domain.sizes[axis]) - 1
        mask = sum(box.get(axis, everything) for text in true for box in found.regions[text])
        _check_sealed(names.domain.attributes[axis], mask, value, from_on=kind in (exp.GT, exp.GTE))
    return {*true}


def _place(found: Derived, value: exp.Expr, names: Names, *, is_equality: bool) -> Fraction:
    """Where a constant stands among the values."""
    source = names.source
    if found.of == "number":
        number = constant(value, source)
        if number is None:
            raise source.refuse(f"compare a number of `{found.name}` with numbers", value)
        return number
    text = value.name if isinstance(value, exp.Literal) else ""
    days = first_and_last(text)
    hint = f"Such as '{next(iter(found.places))}'."
    if days is None:
        raise source.refuse(
            f"compare a {found.unit} of `{found.name}` with a {found.unit} or a date in quotes",
            value,
            hint=f"{hint} The number alone is EXTRACT({str(found.unit).upper()} FROM ...).",
        )
    place = days[0].toordinal()
    least, most = min(found.places.values()), max(found.places.values())
    if is_equality and least <= place <= most and place not in found.places.values():
        raise source.refuse(f"name the first day of a {found.unit}, or the {found.unit}", value)
    return Fraction(place)


def _check_sealed(attribute: Attribute, mask: int, value: exp.Expr, *, from_on: bool) -> None:
    """Raise PeriodNotSealedError if the last of the periods, or all from one on, have no data."""
    if mask:
        at = (mask & -mask).bit_length() - 1 if from_on else mask.bit_length() - 1
        check_sealed(attribute, at, value.name, name="sql")
