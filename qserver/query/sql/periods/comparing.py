"""Compare what follows from an attribute, such as a month or a region, with constants."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from qserver.query.calendar.ends import check_sealed, first_and_last
from qserver.query.domain import Attribute
from qserver.query.sql.attributes import Names, constant, fitting_mask, text_mask
from qserver.query.sql.periods.derived import Derived

_ORDERED: dict[type[exp.Expr], Callable[[Fraction, Fraction], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.eq,  # the caller takes the rest
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def compared_mask(found: Derived, kind: type[exp.Expr], value: exp.Expr, names: Names) -> int:
    """The mask of the attribute's values for which a comparison holds; for <> that of =.

    Values without a place in the order, such as `other`, meet no comparison but = with their name.
    Where missing values have a name, = with it means IS NULL.

    Raises:
        SqlError: the value is none that it can have.
        PeriodNotSealedError: the periods that are named have no data yet.
    """
    value = value.unnest()
    is_equality = kind in (exp.EQ, exp.NEQ)
    if is_equality and isinstance(value, exp.Literal) and _is_missing(found, value):
        return found.null
    is_empty = isinstance(value, exp.Literal) and value.is_string and not value.this
    if is_equality and is_empty and found.of == "text" and "" not in found.masks:
        return 0
    if is_equality and isinstance(value, exp.Literal) and _is_name(found, value):
        mask = text_mask(found.name, found.masks, value, names.source)
    elif found.of == "text":
        raise names.source.refuse(f"compare `{found.name}` by =, <>, IN or LIKE with texts", value)
    else:
        place = _place(found, value, names, is_equality=is_equality)
        holds = _ORDERED[kind]
        texts = [text for text, at in found.places.items() if holds(Fraction(at), place)]
        mask = sum(found.masks[text] for text in texts)
    if found.of == "period":
        attribute = names.domain.attributes[found.axis]
        _check_sealed(attribute, mask, value, from_on=kind in (exp.GT, exp.GTE))
    return mask


def _is_missing(found: Derived, value: exp.Literal) -> bool:
    is_name = value.is_string and value.name == found.missing != ""
    return is_name and value.name not in found.masks


def _is_name(found: Derived, value: exp.Literal) -> bool:
    return value.is_string and (found.of == "text" or value.name in found.masks)


def like_mask(found: Derived, pattern: exp.Literal, names: Names, *, folds: bool) -> int:
    """The mask of the values whose text a pattern of LIKE fits; raises SqlError if it fits none."""
    return fitting_mask(found.name, found.masks, pattern, names.source, folds=folds)


def _place(found: Derived, value: exp.Expr, names: Names, *, is_equality: bool) -> Fraction:
    """Where a constant stands among the values."""
    source = names.source
    if found.of == "number":
        number = constant(value, source)
        if number is None:
            raise source.refuse("compare a part of a date with numbers", value)
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
