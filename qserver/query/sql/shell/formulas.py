"""Texts composed by the engine, read as linear combinations and functions of sums.

A text is JSON: `"0.1.7"` is atom 1 of group 7 of the first SELECT over records, `"=1/3"` a number,
and `["+", a, b]` an operation on such.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from sqlglot import exp

from qserver.errors import CapacityError, SqlError
from qserver.query.sql.functions.item_meaning import Item, Linear, Quotient, Several
from qserver.query.sql.shaping.units_of_measure import PURE, Unit
from qserver.query.sql.shell.functions import FUNCTIONS, applied, has_kinks
from qserver.query.sql.shell.record_groups import Core
from qserver.query.sql.statistics.smooth_functions import of_sums
from qserver.query.sql.text import SqlText

_NOTHING = Linear(())


@dataclass(frozen=True)
class Meaning:
    """The meaning of a text, and the unit of its number; constants have no unit."""

    item: Item | Fraction
    unit: Unit | None


class Formulas:
    """The texts of one statement.

    Args:
        cores: the SELECTs over records, by their index.
        counted: numbers of groups, by theirs.
    """

    def __init__(self, source: SqlText, cores: Sequence[Core], counted: Sequence[Several]) -> None:
        self._source = source
        self._cores = cores
        self._counted = counted
        self._known: dict[object, Meaning] = {}

    def read(self, text: str, node: exp.Expr) -> tuple[Item, Unit | None]:
        """The meaning of a text.

        Args:
            node: the item of SELECT, for errors to point at.

        Raises:
            SqlError: it cannot be measured.
        """
        try:
            found = self._of(json.loads(text), node)
        except RecursionError as exc:
            raise CapacityError("The text of SQL is nested too deep. Ask its parts.") from exc
        except ValueError as exc:  # of a public value that is no number
            raise self._source.refuse("calculate with numbers", node) from exc
        if isinstance(found.item, Fraction):  # what LAG gives where there is no other row
            return Linear((), offset=found.item), None
        return found.item, found.unit or PURE

    def _of(self, value: Any, node: exp.Expr) -> Meaning:
        key = _frozen(value)
        if key not in self._known:
            self._known[key] = self._calculated(value, node)
        return self._known[key]

    def _calculated(self, value: Any, node: exp.Expr) -> Meaning:
        if isinstance(value, str):
            return self._named(value)
        name, *rest = value
        if name in ("sum", "avg"):
            return self._total(name, rest, node)
        if name in ("greatest", "least"):
            rest = list(dict.fromkeys(map(_frozen, rest)))
        parts = [self._of(one, node) for one in rest]
        if name in ("+", "-"):
            return self._sum(name, parts, node)
        if name == "*":
            return self._product(parts[0], parts[1], node)
        if name == "/":
            return self._quotient(parts[0], parts[1], node)
        return self._function(name, parts, node)

    def _named(self, text: str) -> Meaning:
        if text.startswith("="):
            return Meaning(Fraction(text[1:]), None)
        core, atom, row = map(int, text.split("."))
        if core < 0:
            return Meaning(self._counted[row], _GROUPS)
        return self._of_atom(core, atom, (row,))

    def _of_atom(self, core: int, atom: int, rows: tuple[int, ...]) -> Meaning:
        of = self._cores[core]
        return Meaning(of.item(atom, rows), of.atoms[atom].unit)

    def _total(self, name: str, parts: list[Any], node: exp.Expr) -> Meaning:
        """The sum, or the mean, over rows."""
        found = self._together(parts, node)
        if name == "sum":
            return found
        return self._scaled(found, Fraction(1, len(parts)), node)

    def _together(self, parts: list[Any], node: exp.Expr) -> Meaning:
        refs = [one.split(".") for one in parts if isinstance(one, str) and one[0] != "="]
        if len(refs) == len(parts) and len({(core, atom) for core, atom, _ in refs}) == 1:
            core, atom = int(refs[0][0]), int(refs[0][1])
            rows = tuple(int(row) for _, _, row in refs)
            is_linear = core >= 0 and isinstance(self._cores[core].atoms[atom].item, Linear)
            if is_linear and self._cores[core].adds_up(rows):
                return self._of_atom(core, atom, rows)
        return self._sum("+", [self._of(one, node) for one in parts], node)

    def _sum(self, name: str, parts: list[Meaning], node: exp.Expr) -> Meaning:
        if len(parts) == 1:
            return parts[0] if name == "+" else self._scaled(parts[0], Fraction(-1), node)
        total = parts[0]
        for one in parts[1:]:
            other = one if name == "+" else self._scaled(one, Fraction(-1), node)
            item = self._plus(total.item, other.item, node)
            total = Meaning(item, _unit_of_sum(total.unit, other.unit))
        return total

    def _scaled(self, one: Meaning, factor: Fraction, node: exp.Expr) -> Meaning:
        if isinstance(one.item, Fraction):
            return Meaning(one.item * factor, one.unit)
        if isinstance(one.item, Several):
            if not factor:
                raise self._source.refuse("not multiply it by zero", node)
            if has_kinks(one.item.function):
                return Meaning(self._apply("*", [one.item, factor], node), one.unit)
        return Meaning(one.item.scaled(factor), one.unit)

    def _plus(
        self, one: Item | Fraction, other: Item | Fraction, node: exp.Expr
    ) -> Item | Fraction:
        if isinstance(one, Fraction):
            if isinstance(other, Fraction):
                return one + other
            one, other = other, one
        if any(isinstance(of, Several) and has_kinks(of.function) for of in (one, other)):
            return self._apply("+", [one, other], node)
        if isinstance(other, Fraction):
            return (
                one.plus(replace(_NOTHING, offset=other))
                if isinstance(one, Linear)
                else (one.moved(other))
            )
        if isinstance(one, Linear) and isinstance(other, Linear):
            return one.plus(other)
        if isinstance(one, Quotient) and isinstance(other, Quotient):
            total = one.plus(other) if one.denominator == other.denominator else None
            return total or of_sums(one).plus(of_sums(other))
        if isinstance(one, Several) and isinstance(other, Several) and _are_alike(one, other):
            return one.plus(other)
        return self._apply("+", [one, other], node)

    def _product(self, one: Meaning, other: Meaning, node: exp.Expr) -> Meaning:
        if isinstance(one.item, Fraction):
            one, other = other, one
        if isinstance(other.item, Fraction):
            return self._scaled(one, other.item, node)
        unit = _times(one.unit, other.unit, 1)
        return Meaning(self._apply("*", [one.item, other.item], node), unit)

    def _quotient(self, one: Meaning, other: Meaning, node: exp.Expr) -> Meaning:
        if isinstance(other.item, Fraction):
            if other.item == 0:
                raise self._source.refuse("not divide by zero", node)
            return self._scaled(one, 1 / other.item, node)
        unit = _times(one.unit, other.unit, -1)
        over, under = one.item, other.item
        if isinstance(over, Linear) and isinstance(under, Linear):
            if under.error:
                raise self._source.refuse("divide by counts, or by sums without wide bins", node)
            if not over.offset and not under.offset:
                if over.terms == under.terms:  # as of the first row of a running share
                    return Meaning(Fraction(1), None)
                return Meaning(Quotient(over, under), unit)
        return Meaning(self._apply("/", [over, under], node), unit)

    def _function(self, name: str, parts: list[Meaning], node: exp.Expr) -> Meaning:
        known = (part.unit for part in parts if part.unit is not None)
        unit = PURE if FUNCTIONS[name].is_pure else next(known, None)
        if len(parts) == 1 and name in ("greatest", "least"):
            return parts[0]
        fixed = [part.item for part in parts if isinstance(part.item, Fraction)]
        if len(fixed) == len(parts):
            return Meaning(self._fixed(name, fixed, node), None)
        return Meaning(self._apply(name, [part.item for part in parts], node), unit)

    def _fixed(self, name: str, of: Sequence[Fraction], node: exp.Expr) -> Fraction:
        """A function of public numbers."""
        with np.errstate(all="ignore"):
            found = float(FUNCTIONS[name].values(*(np.array(float(one)) for one in of)))
        if not math.isfinite(found):
            raise self._source.refuse("take functions of numbers that have a value", node)
        return Fraction(found)

    def _apply(self, name: str, parts: Sequence[Item | Fraction], node: exp.Expr) -> Item:
        found = applied(name, parts)
        if found is None:
            raise self._no_function(parts, node)
        return found

    def _no_function(self, parts: Sequence[Item | Fraction], node: exp.Expr) -> SqlError:
        smooth = [one for one in parts if isinstance(one, Several) and not one.function.smooth]
        if not smooth:
            return self._source.refuse(
                "take functions of numbers whose bins are narrow: what these hide of it is not "
                "bounded",
                node,
                hint="Select the numbers one by one; each says what its bins hide.",
            )
        return self._source.refuse(
            "not calculate so with a number whose interval is no sum's",
            node,
            hint="Numbers may be added to it, and it may be multiplied by them; two of the kind "
            "may be added. Else select them one by one.",
        )


_GROUPS = Unit((("groups", 1),))


def _are_alike(one: Several, other: Several) -> bool:
    """Whether WITHIN means the same for both, and intervals are found in the same way."""
    kinds = [
        (of.function.has_steps, of.function.smooth is None, of.function.order is None)
        for of in (one, other)
    ]
    return kinds[0] == kinds[1]


def _unit_of_sum(one: Unit | None, other: Unit | None) -> Unit | None:
    if one is None or other is None:
        return one or other
    return one.plus(other)


def _times(one: Unit | None, other: Unit | None, power: int) -> Unit | None:
    if one is None and other is None:
        return None
    return (one or PURE).times(other or PURE, power)


def _frozen(value: Any) -> object:
    """A hashable key of the value."""
    return value if isinstance(value, str) else tuple(map(_frozen, value))
