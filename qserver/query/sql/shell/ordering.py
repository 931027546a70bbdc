"""ORDER BY and LIMIT of what is public, done by the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from qserver.query.sql.shell.relations import PLACE, Relation, called
from qserver.query.sql.shell.values import aliased


def ordered(found: Relation) -> Relation:
    """The relation with what is public done of ORDER BY and LIMIT."""
    is_public = not found.tests and not found.firsts
    if not is_public or any(key.is_number for key in found.keys):
        return found
    if not found.keys and not found.is_cut:
        return found
    query = found.query
    if found.keys:
        order = [
            exp.Ordered(
                this=exp.column(called(key.column)),
                desc=key.descending,
                nulls_first=key.nulls_first,
            )
            for key in found.keys
        ]
        order.append(exp.Ordered(this=exp.column(PLACE), nulls_first=False))
        query = _replaced(query, found, order)
    if found.is_cut:
        inner = aliased(query, "l")
        cut = exp.Select(expressions=[exp.Star()]).from_(inner).order_by(exp.column(PLACE))
        cut = cut if found.limit is None else cut.limit(found.limit)
        query = cut.offset(found.offset) if found.offset else cut
    return replace(found, query=query, keys=(), limit=None, offset=0)


def _replaced(query: exp.Expr, found: Relation, order: Sequence[exp.Ordered]) -> exp.Select:
    """The query with places in another order."""
    names = [c.sql for c in (*found.columns, *found.hidden) if c.rank is None]
    place = exp.Window(this=exp.RowNumber(), order=exp.Order(expressions=list(order)), over="OVER")
    inner = aliased(query, "p")
    parts = [*(exp.column(name) for name in dict.fromkeys(names)), exp.alias_(place, PLACE)]
    return exp.Select(expressions=parts).from_(inner)


def is_null(node: exp.Expr) -> exp.Expr:
    """Whether a value is NULL."""
    return exp.Is(this=node, expression=exp.null())


def rank_of(node: exp.Expr) -> exp.Expr:
    """The place of a public value in the order of all; NULL has none."""
    order = exp.Order(expressions=[exp.Ordered(this=node.copy(), nulls_first=False)])
    rank = exp.Window(this=exp.DenseRank(), order=order, over="OVER")
    return exp.Case(ifs=[exp.If(this=is_null(node.copy()), true=exp.null())], default=rank)
