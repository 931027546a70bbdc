"""Conditions of SQL: three truth values, and branches.

A condition is true, false or unknown of a record: a comparison with a missing value is unknown. NOT
swaps true and false, and keeps unknown. AND is true where all of its parts are, and false where one
is; OR the other way. WHERE, FILTER and CASE take only true ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from sqlglot import exp


@dataclass(frozen=True)
class Truth:
    """The records with one truth value of a condition, or all others.

    Args:
        value: true or false.
        is_rest: whether the others are meant, with the other value or unknown.
    """

    value: bool
    is_rest: bool = False

    @property
    def of_opposite(self) -> Truth:
        """The truth to ask of c for this truth of NOT c."""
        return Truth(not self.value, self.is_rest)

    @property
    def rest(self) -> Truth:
        """All other records."""
        return Truth(self.value, not self.is_rest)

    def needs_all(self, *, of_and: bool) -> bool:
        """Whether AND (or else OR) has it only if all parts have it."""
        return of_and == (self.value != self.is_rest)

    def holds(self, *, value: bool | None) -> bool:
        """Whether a condition with this truth value has it; None for unknown."""
        return (value is self.value) != self.is_rest

    def mask(self, true: int, unknown: int, everything: int) -> int:
        """Mask of the values that have it, from masks of true and unknown values."""
        found = true if self.value else everything & ~(true | unknown)
        return everything & ~found if self.is_rest else found


TRUE, FALSE = Truth(value=True), Truth(value=False)
NOT_TRUE, NOT_FALSE = TRUE.rest, FALSE.rest


Branching = exp.Case | exp.If | exp.Coalesce | exp.Nullif


@dataclass(frozen=True)
class Branches:
    """CASE as branches: the value of the first true condition, else the default.

    Args:
        pairs: conditions and values, in order.
        default: NULL if the text has none.
    """

    pairs: tuple[tuple[exp.Expr, exp.Expr], ...]
    default: exp.Expr


ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg)
CONDITIONS = (exp.Predicate, exp.Connector, exp.Not, exp.Like, exp.ILike)


def is_text(node: exp.Expr | None) -> TypeGuard[exp.Literal]:
    """Whether an expression is a text in quotes."""
    return isinstance(node, exp.Literal) and bool(node.is_string)


def above(node: exp.Expr) -> exp.Expr | None:
    """The parent of an expression, without parentheses."""
    found = node.parent
    while isinstance(found, exp.Paren):
        found = found.parent
    return found


def is_star(node: exp.Expr) -> bool:
    """Whether an item is `*` or `t.*`; COUNT(*) is none."""
    is_all = isinstance(node, exp.Star) or isinstance(node.this, exp.Star)
    return is_all and not isinstance(node, exp.Func)


def is_branching(node: exp.Expr) -> TypeGuard[Branching]:
    """Whether an expression is one of these."""
    return isinstance(node, exp.Case | exp.If | exp.Coalesce | exp.Nullif)


def branches_of(node: Branching) -> Branches:
    """The branches of an expression; CASE x WHEN v is read as WHEN x = v."""
    if isinstance(node, exp.Coalesce):
        *firsts, last = (node.this, *node.expressions)
        return Branches(tuple((has_value(one), one) for one in firsts), last)
    if isinstance(node, exp.Nullif):
        same = of_two(exp.EQ, node.this, node.expression)
        return Branches(((same, exp.null()),), node.this)
    of = node.this if isinstance(node, exp.Case) else None
    pairs = tuple(
        (branch.this if of is None else of_two(exp.EQ, of, branch.this), branch.args["true"])
        for branch in (node.args["ifs"] if isinstance(node, exp.Case) else [node])
    )
    default = node.args.get("default" if isinstance(node, exp.Case) else "false")
    return Branches(pairs, exp.null() if default is None else default)


def compared(node: exp.Expr, subject: Branching) -> exp.Case:
    """A condition on branches, as one on the value of each."""
    found = branches_of(subject)
    ifs = [
        made(exp.If, {"this": condition, "true": _about(node, value)})
        for condition, value in found.pairs
    ]
    case: exp.Case = made(exp.Case, {"ifs": ifs, "default": _about(node, found.default)})
    return case


def has_value(node: exp.Expr) -> exp.Expr:
    """The condition that an expression is not NULL."""
    is_null = of_two(exp.Is, node, exp.null())
    found: exp.Expr = made(exp.Not, {"this": is_null})
    return found


def of_two(kind: type[exp.Expr], one: exp.Expr, other: exp.Expr) -> Any:
    """A node of two parts, without copying them."""
    return made(kind, {"this": one, "expression": other})


def between(node: exp.Between) -> list[exp.Expr]:
    """Both comparisons of BETWEEN."""
    ends = ((exp.GTE, node.args["low"]), (exp.LTE, node.args["high"]))
    return [of_two(kind, node.this, end) for kind, end in ends]


def made(kind: type[exp.Expr], args: Mapping[str, Any]) -> Any:
    """A node of these parts, without copying them."""
    found = kind()
    found.args = dict(args)
    return found


def _about(node: exp.Expr, subject: exp.Expr) -> exp.Expr:
    found: exp.Expr = made(type(node), {**node.args, "this": subject})
    return found
