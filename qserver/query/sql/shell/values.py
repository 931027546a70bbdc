"""Expressions over released numbers, written as SQL that puts references together as texts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from qserver.query.sql.shell.relations import Value

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
    """The text of a number; of a public value that of the number which it is."""
    if value.is_number:
        return value.node
    text = exp.Cast(this=value.node, to=exp.DataType.build("VARCHAR"))
    return joined(['"=', text, '"'])


def constant_text(number: Fraction) -> exp.Expr:
    """The text of a number that the statement has."""
    return exp.Literal.string(f'"={number}"')


def call(name: str, parts: Sequence[exp.Expr]) -> exp.Expr:
    """The text of what is calculated of the texts of numbers; NULL where one is NULL."""
    pieces: list[exp.Expr | str] = [f'["{name}"']
    for part in parts:
        pieces += [",", part]
    return joined([*pieces, "]"])


def aliased(query: exp.Expr, name: str, *, quoted: bool = False) -> exp.Subquery:
    """A query in FROM."""
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=quoted))
    return exp.Subquery(this=query, alias=alias)


def of_all(name: str, text: exp.Expr) -> exp.Expr:
    """The text of a function of the numbers of several rows, whose texts stand between commas."""
    return joined([f'["{name}",', text, "]"])


def of_rows(function: exp.Expr) -> str:
    """The name of a function of the numbers of several rows; '' for another."""
    return "" if function.expressions else _OF_ROWS.get(type(function), "")


def joined(pieces: Sequence[exp.Expr | str]) -> exp.Expr:
    """Texts one after the other, nested as little as can be."""
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
