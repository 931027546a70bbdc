"""CASE, IF, COALESCE and NULLIF: conditions, each with a value, and a value for all other records.

No part is copied, so that all keep their places in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from sqlglot import exp

Branching = exp.Case | exp.If | exp.Coalesce | exp.Nullif


@dataclass(frozen=True)
class Branches:
    """What an expression is: the value of the first condition that is true, else the default.

    Args:
        pairs: conditions and values, in order.
        default: NULL where the text has none.
    """

    pairs: tuple[tuple[exp.Expr, exp.Expr], ...]
    default: exp.Expr


def is_branching(node: exp.Expr) -> TypeGuard[Branching]:
    """Whether an expression is one of these."""
    return isinstance(node, exp.Case | exp.If | exp.Coalesce | exp.Nullif)


def branches_of(node: Branching) -> Branches:
    """The branches of an expression; CASE x WHEN v is read as WHEN x = v."""
    if isinstance(node, exp.Coalesce):
        *firsts, last = (node.this, *node.expressions)
        return Branches(tuple((has_value(one), one) for one in firsts), last)
    if isinstance(node, exp.Nullif):
        same = made(exp.EQ, {"this": node.this, "expression": node.expression})
        return Branches(((same, exp.null()),), node.this)
    of = node.this if isinstance(node, exp.Case) else None
    pairs = tuple(
        (
            branch.this if of is None else made(exp.EQ, {"this": of, "expression": branch.this}),
            branch.args["true"],
        )
        for branch in (node.args["ifs"] if isinstance(node, exp.Case) else [node])
    )
    default = node.args.get("default" if isinstance(node, exp.Case) else "false")
    return Branches(pairs, exp.null() if default is None else default)


def compared(node: exp.Expr, subject: Branching) -> exp.Case:
    """A condition on such an expression, as one on the value of each branch."""
    found = branches_of(subject)
    ifs = [
        made(exp.If, {"this": condition, "true": _about(node, value)})
        for condition, value in found.pairs
    ]
    case: exp.Case = made(exp.Case, {"ifs": ifs, "default": _about(node, found.default)})
    return case


def has_value(node: exp.Expr) -> exp.Expr:
    """The condition that an expression is not NULL."""
    is_null = made(exp.Is, {"this": node, "expression": exp.null()})
    found: exp.Expr = made(exp.Not, {"this": is_null})
    return found


def made(kind: type[exp.Expr], args: Mapping[str, Any]) -> Any:
    """A node whose parts stay where they are."""
    found = kind()
    found.args = dict(args)
    return found


def _about(node: exp.Expr, subject: exp.Expr) -> exp.Expr:
    found: exp.Expr = made(type(node), {**node.args, "this": subject})
    return found
