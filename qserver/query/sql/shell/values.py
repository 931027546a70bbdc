"""Expressions over released numbers, written as SQL that puts references together as texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from qserver.query.sql.shell.relations import Ranked
from qserver.query.sql.tables.exactness import UNSAID, Exactness

_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Abs: "abs",
    exp.Ln: "ln",
    exp.Exp: "exp",
    exp.Sqrt: "sqrt",
    exp.Pow: "power",
}


@dataclass(frozen=True)
class Value:
    """An expression in terms of the engine.

    Args:
        sql: it gives a public value, or the text of a number.
        column: the column that it is, by its number; None where it is calculated.
        digits, rank, may_lack: as of a `Column`.
    """

    sql: exp.Expr
    is_number: bool = False
    column: int | None = None
    together: int | None = None
    course: tuple[str, ...] = ()
    digits: int | None = None
    rank: Ranked | None = None
    order: int | None = None
    exactness: Exactness = UNSAID
    may_lack: bool = False

    @property
    def alone(self) -> Value:
        """The same as part of an expression, which has no name and no order of its own."""
        return replace(self, column=None, together=None, course=(), order=None, digits=None)


def number_of(value: Value) -> exp.Expr:
    """The text of a number; of a public value that of the number which it is."""
    if value.is_number:
        return value.sql
    text = exp.Cast(this=value.sql, to=exp.DataType.build("VARCHAR"))
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


def of_all(name: str, text: exp.Expr) -> exp.Expr:
    """The text of a function of the numbers of several rows, whose texts stand between commas."""
    return joined([f'["{name}",', text, "]"])


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
    return _OPERATORS.get(type(node)) or _FUNCTIONS.get(type(node)) or ""
