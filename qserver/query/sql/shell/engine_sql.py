"""Expressions over released numbers, written as SQL that puts references together as texts.

And ORDER BY and LIMIT of what is public, done by the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from qserver.query.sql.shell.derived_table import PLACE, Relation, Value, called

_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"} | {
    exp.Abs: "abs",
    exp.Ln: "ln",
    exp.Exp: "exp",
    exp.Sqrt: "sqrt",
    exp.Cbrt: "cbrt",
    exp.Pow: "power",
}
_OF_ROWS: dict[type[exp.Expr], str] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Max: "greatest",
    exp.Min: "least",
}


def number_of(value: Value) -> exp.Expr:
    """The text of a number; for a public value, of the number that it is."""
    if value.is_number:
        return value.node
    text = exp.Cast(this=value.node, to=exp.DataType.build("VARCHAR"))
    return joined(['"=', text, '"'])


def constant_text(number: Fraction) -> exp.Expr:
    """The text of a number that the statement has."""
    return exp.Literal.string(f'"={number}"')


def call(name: str, parts: Sequence[exp.Expr]) -> exp.Expr:
    """The text of an operation on texts of numbers; NULL if one is NULL."""
    pieces: list[exp.Expr | str] = [f'["{name}"']
    for part in parts:
        pieces += [",", part]
    return joined([*pieces, "]"])


def aliased(query: exp.Expr, name: str, *, quoted: bool = False) -> exp.Subquery:
    """A query in FROM."""
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=quoted))
    return exp.Subquery(this=query, alias=alias)


def of_all(name: str, text: exp.Expr) -> exp.Expr:
    """The text of a function over rows; the numbers' texts are joined by commas."""
    return joined([f'["{name}",', text, "]"])


def of_rows(function: exp.Expr) -> str:
    """The name of a function of the numbers of several rows; '' for another."""
    return "" if function.expressions else _OF_ROWS.get(type(function), "")


def joined(pieces: Sequence[exp.Expr | str]) -> exp.Expr:
    """Concatenated texts, with minimal nesting."""
    found = [exp.Literal.string(one) if isinstance(one, str) else one for one in pieces]
    while len(found) > 1:
        pairs = [found[i : i + 2] for i in range(0, len(found), 2)]
        found = [
            exp.Paren(this=exp.DPipe(this=pair[0], expression=pair[1], safe=False))
            if len(pair) > 1
            else pair[0]
            for pair in pairs
        ]
    return found[0]


def operator_of(node: exp.Expr) -> str:
    """The name of an operator or a function of numbers; '' for another node."""
    return _OPERATORS.get(type(node), "")


def ordered(found: Relation) -> Relation:
    """The relation after the public part of ORDER BY and LIMIT."""
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
    """The query with reordered places."""
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
