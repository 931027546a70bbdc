"""The clauses of SQL that say how a posterior is read, and the reader of their tokens.

GIVEN NON NEGATIVE | GIVEN KNOWN TOTAL | GIVEN BETWEEN a AND b
BY CONVOLUTION [STEP s] | BY MONTE CARLO [DRAWS n] | BY ERROR e
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import Token, TokenType

from qserver.errors import InputError, QueryError
from qserver.query.asking.reading import AS_EVER, Prior, Reading
from qserver.query.numbers import exact_number
from qserver.query.sql.text import SqlText


@dataclass
class TokenReader:
    """Reads tokens one after the other."""

    source: SqlText
    tokens: Sequence[Token]
    i: int = 0

    def word(self, *words: str) -> bool:
        """Whether one of `words` comes next; if so, moves past it."""
        matches = self.i < len(self.tokens) and self.tokens[self.i].text.upper() in words
        self.i += matches
        return matches

    def text(self, word: str, hint: str) -> str:
        """The next text in quotes, after `word`."""
        token = self.tokens[self.i] if self.i < len(self.tokens) else None
        if token is None or token.token_type is not TokenType.STRING or not token.text:
            raise self.source.refuse(
                f"give a period in quotes after {word}", self.last(), hint=hint
            )
        self.i += 1
        return token.text

    def number(self, what: str) -> Fraction:
        """The next number."""
        token = self.tokens[self.i] if self.i < len(self.tokens) else None
        if token is None or token.token_type is not TokenType.NUMBER:
            at = self.source.end if token is None else token
            raise self.source.refuse(f"give a number > 0 {what}", at)
        value = self._value(token)
        if value <= 0:
            raise self.source.refuse(f"give a number > 0 {what}", token)
        return value

    def signed(self, what: str) -> Fraction:
        """The next number, perhaps with a sign."""
        sign = -1 if self.word("-") else 1
        token = self.tokens[self.i] if self.i < len(self.tokens) else None
        if token is None or token.token_type is not TokenType.NUMBER:
            raise self.source.refuse(f"give a number {what}", self.last())
        return sign * self._value(token)

    def _value(self, token: Token) -> Fraction:
        self.i += 1
        try:
            return exact_number(token.text, "sql")
        except QueryError as exc:
            raise self.source.refuse(exc.condition, token) from exc

    def last(self) -> Token:
        """The token before the present place."""
        return self.tokens[self.i - 1]


def with_word(reader: TokenReader, reading: Reading, word: str) -> Reading:
    """The reading with what comes after GIVEN or BY; SqlError if that means nothing."""
    is_given = word == "GIVEN"
    by = (reading.method, reading.error) != (AS_EVER.method, AS_EVER.error)
    said = reading.prior is not None if is_given else by
    if said:
        raise reader.source.refuse(f"say {word} once", reader.last())
    try:
        return replace(reading, prior=_prior(reader)) if is_given else _method(reader, reading)
    except InputError as exc:
        if isinstance(exc, QueryError):
            raise
        name = "prior" if is_given else exc.name
        raise reader.source.refuse(
            f"let {name} {exc.condition}", reader.last(), hint=exc.hint
        ) from exc


def _prior(reader: TokenReader) -> Prior:
    if reader.word("BETWEEN"):
        low = reader.signed("after BETWEEN")
        _then(reader, "AND")
        return Prior("between", float(low), float(reader.signed("after AND")))
    if reader.word("NON"):
        _then(reader, "NEGATIVE")
        return Prior("non-negative")
    if reader.word("KNOWN"):
        _then(reader, "TOTAL")
        return Prior("known-total")
    raise reader.source.refuse("say NON NEGATIVE, KNOWN TOTAL or BETWEEN", reader.last())


def _method(reader: TokenReader, reading: Reading) -> Reading:
    if reader.word("ERROR"):
        return replace(reading, error=float(reader.number("after ERROR")))
    if reader.word("CONVOLUTION"):
        step = float(reader.number("after STEP")) if reader.word("STEP") else None
        return replace(reading, method="convolution", step=step)
    reader.word("MONTE")
    _then(reader, "CARLO")
    if not reader.word("DRAWS"):
        return replace(reading, method="monte-carlo")
    draws = reader.number("after DRAWS")
    if draws.denominator != 1:
        raise reader.source.refuse("give a whole number after DRAWS", reader.last())
    return replace(reading, method="monte-carlo", draws=int(draws))


def _then(reader: TokenReader, word: str) -> None:
    """Move past a word that must follow."""
    if not reader.word(word):
        raise reader.source.refuse(f"say {word} after {reader.last().text.upper()}", reader.last())
