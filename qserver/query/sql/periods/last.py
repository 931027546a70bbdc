"""`LAST 4 WEEKS`: the condition on the last periods that have their data.

The tokens become a call of a function that nobody types, which a parser of SQL can read.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType, exp

from qserver.errors import QueryError
from qserver.query.calendar.ends import range_of_last
from qserver.query.calendar.units import UNITS
from qserver.query.domain import Domain
from qserver.query.sql.text import SqlText

NO_CLOCK = "compare with fixed days: what is known must not depend on the clock"
LAST_PERIODS = "Nearest: WHERE LAST 4 WEEKS, the last periods that have their data."
_CALL = "LAST_PERIODS"
_WORDS = {word: unit for unit in (*UNITS, "period") for word in (unit.upper(), f"{unit.upper()}S")}


def with_calls(tokens: Sequence[Token]) -> list[Token]:
    """The tokens, with each `LAST n PERIODS` as a call."""
    found: list[Token] = []
    i = 0
    while i < len(tokens):
        if _is_last(tokens[i : i + 3]):
            found += _call(*tokens[i : i + 3])
            i += 3
        else:
            found.append(tokens[i])
            i += 1
    return found


def misplaced(name: str) -> str:
    """What to do where such a call stands beside WHERE; '' for another name."""
    return "It is a condition: WHERE ... AND LAST 4 WEEKS." if name == _CALL else ""


def is_last(node: exp.Expr) -> bool:
    """Whether a condition is such a call."""
    return isinstance(node, exp.Anonymous) and node.name == _CALL


def last(node: exp.Expr, domain: Domain, source: SqlText) -> tuple[int, range]:
    """The axis of the periods, and the indexes of those that the call means.

    Raises:
        SqlError: the domain has no periods, or others than those named.
        PeriodNotSealedError: no period has its data yet.
    """
    number, word = node.expressions
    axis = domain.period_axis
    if axis is None:
        raise source.refuse("not say LAST: the dataset has no attribute of periods", number)
    attribute, unit = domain.attributes[axis], _WORDS[word.this]
    own = attribute.periods.every if attribute.periods is not None else "period"
    if unit not in (own, "period"):
        raise source.refuse(
            f"count the periods of `{attribute.name}` in {own}s",
            number,
            hint=f"Nearest: LAST {number.this} {own.upper()}S.",
        )
    try:
        return axis, range_of_last(attribute, _whole(number.this), name="sql")
    except QueryError as exc:
        raise source.refuse(f"let LAST {exc.condition}", number) from exc


def _is_last(three: Sequence[Token]) -> bool:
    return (
        len(three) == 3
        and three[0].text.upper() == "LAST"
        and three[0].token_type is not TokenType.STRING
        and three[1].token_type is TokenType.NUMBER
        and three[2].text.upper() in _WORDS
    )


def _call(first: Token, number: Token, word: Token) -> list[Token]:
    def at(place: Token, kind: TokenType, text: str) -> Token:
        return Token(kind, text, place.line, place.col, place.start, place.end)

    return [
        at(first, TokenType.VAR, _CALL),
        at(first, TokenType.L_PAREN, "("),
        number,
        at(number, TokenType.COMMA, ","),
        at(word, TokenType.STRING, word.text.upper()),
        at(word, TokenType.R_PAREN, ")"),
    ]


def _whole(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
