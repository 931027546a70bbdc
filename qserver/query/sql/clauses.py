"""The clauses that SQL does not have: how exact the answer shall be.

WITHIN w | WITHIN p PERCENT OF n     half-width of the interval
CONFIDENCE c | CONFIDENCE p PERCENT
SIMULTANEOUS                         all intervals hold at once with that confidence
CONSISTENT                           also the values of one non-negative table
ASSUMING [AT LEAST] n                records in the denominator of a quotient
ONLY THIS                            nothing is measured for later questions
AS LARGEST [k] OF m | AS LEAST [k] OF m | AS ANY OF m
                                     intervals hold after a choice among m numbers
INDEPENDENT                          fresh noise, combined with nothing released before
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

from sqlglot import Token, TokenType

from qserver.errors import InputError, QueryError
from qserver.query.domain import decimal_text
from qserver.query.looking import NOTHING_SEEN, Looking, Rule, Selection
from qserver.query.measure import Measure
from qserver.query.numbers import exact_number
from qserver.query.requirement import MIN_DELTA
from qserver.query.sql.text import SqlText
from qserver.query.sql.tokens import CHOICES, TokenizedSql

DEFAULT_CONFIDENCE = Fraction(19, 20)
MOST_CONFIDENCE = 1 - Fraction(str(MIN_DELTA))


@dataclass(frozen=True)
class Clauses:
    """The text's clauses on how exact the answers shall be.

    Args:
        half_width: w, in the units of the answer, or None.
        confidence: of each interval, or None.
        simultaneous: whether all intervals shall hold at once.
        consistent: whether the values of one non-negative table are wanted, too.
        assuming: least number of records in the denominator of each quotient, or None.
        measure: what may be measured; None where the text does not say it.
        looking: what was looked at, or will be.
    """

    half_width: Fraction | None = None
    confidence: Fraction | None = None
    simultaneous: bool = False
    consistent: bool = False
    assuming: Fraction | None = None
    measure: Measure | None = None
    looking: Looking = NOTHING_SEEN


@dataclass
class _Reader:
    """Reads tokens one after the other."""

    source: SqlText
    tokens: Sequence[Token]
    i: int = 0
    found: dict[str, Fraction] = field(default_factory=dict)
    chosen: Selection | None = None

    def word(self, *words: str) -> bool:
        """Whether one of `words` comes next; if so, moves past it."""
        matches = self.i < len(self.tokens) and self.tokens[self.i].text.upper() in words
        self.i += matches
        return matches

    def number(self, what: str) -> Fraction:
        """The next number."""
        token = self.tokens[self.i] if self.i < len(self.tokens) else None
        if token is None or token.token_type is not TokenType.NUMBER:
            at = self.source.end if token is None else token
            raise self.source.refuse(f"give a number > 0 {what}", at)
        self.i += 1
        try:
            value = exact_number(token.text, "sql")
        except QueryError as exc:
            raise self.source.refuse(exc.condition, token) from exc
        if value <= 0:
            raise self.source.refuse(f"give a number > 0 {what}", token)
        return value

    def last(self) -> Token:
        """The token before the present place."""
        return self.tokens[self.i - 1]


def read_clauses(sql: TokenizedSql) -> Clauses:
    """The clauses of a text; SqlError if one is malformed, or comes twice."""
    reader = _Reader(sql.source, sql.clauses)
    said = dict.fromkeys(("SIMULTANEOUS", "CONSISTENT", "INDEPENDENT"), False)
    is_only = False
    while reader.i < len(reader.tokens):
        if reader.word("WITHIN"):
            _once(reader, "WITHIN", _half_width(reader))
        elif reader.word("CONFIDENCE"):
            _once(reader, "CONFIDENCE", _confidence(reader))
        elif reader.word("ASSUMING"):
            if reader.word("AT"):
                reader.word("LEAST")
            _once(reader, "ASSUMING", reader.number("after ASSUMING AT LEAST"))
        elif reader.word(*said):
            said[reader.last().text.upper()] = True
        elif reader.word("AS"):
            _choose(reader)
        elif reader.word("ONLY"):
            is_only = reader.word("THIS")
            if not is_only:
                raise sql.source.refuse("say THIS after ONLY", reader.last())
        else:
            raise sql.source.refuse(
                "end with WITHIN, CONFIDENCE, SIMULTANEOUS, CONSISTENT, ASSUMING, ONLY THIS, "
                "AS LARGEST OF and INDEPENDENT alone",
                reader.tokens[reader.i],
            )
    return Clauses(
        reader.found.get("WITHIN"),
        reader.found.get("CONFIDENCE"),
        said["SIMULTANEOUS"],
        said["CONSISTENT"],
        reader.found.get("ASSUMING"),
        "only_this" if is_only else None,
        _looking(reader, independent=said["INDEPENDENT"]),
    )


def _choose(reader: _Reader) -> None:
    """Read the choice after AS."""
    if reader.chosen is not None:
        raise reader.source.refuse("say AS LARGEST OF once", reader.last())
    if not reader.word(*CHOICES):
        raise reader.source.refuse("say LARGEST, LEAST or ANY after AS", reader.last())
    rule, first = cast("Rule", reader.last().text.lower()), 1
    if not reader.word("OF"):
        first = _whole(reader, f"or OF after {rule.upper()}")
        if not reader.word("OF"):
            raise reader.source.refuse(
                "say among how many the choice is made",
                reader.last(),
                hint="Nearest: AS LARGEST OF 64.",
            )
    m = _whole(reader, "after OF")
    try:
        reader.chosen = Selection(m, rule, first)
    except InputError as exc:
        raise reader.source.refuse(
            f"name a choice whose `{exc.name}` can {exc.condition}", reader.last(), hint=exc.hint
        ) from exc


def _whole(reader: _Reader, what: str) -> int:
    value = reader.number(what)
    if value.denominator != 1:
        raise reader.source.refuse(f"give a whole number {what}", reader.last())
    return int(value)


def _looking(reader: _Reader, *, independent: bool) -> Looking:
    try:
        return Looking(reader.chosen, independent=independent)
    except InputError as exc:
        raise reader.source.refuse(
            "not have both INDEPENDENT and AS LARGEST OF", reader.last(), hint=exc.hint
        ) from exc


def _once(reader: _Reader, name: str, value: Fraction) -> None:
    if name in reader.found:
        raise reader.source.refuse(f"say {name} once", reader.last())
    reader.found[name] = value


def _half_width(reader: _Reader) -> Fraction:
    value = reader.number("after WITHIN")
    if not reader.word("PERCENT", "%"):
        return value
    if not reader.word("OF"):
        raise reader.source.refuse(
            "say of which number WITHIN is a percentage",
            reader.last(),
            hint="Nearest: WITHIN 5 PERCENT OF 10000, with a number of your own.",
        )
    return value * reader.number("after OF") / 100


def _confidence(reader: _Reader) -> Fraction:
    value = reader.number("after CONFIDENCE")
    if reader.word("PERCENT", "%"):
        value /= 100
    if value >= 1:
        raise reader.source.refuse(
            "have a CONFIDENCE below 1", reader.last(), hint="Nearest: CONFIDENCE 0.95."
        )
    if value > MOST_CONFIDENCE:
        raise reader.source.refuse(
            f"have a CONFIDENCE of at most {decimal_text(MOST_CONFIDENCE)}", reader.last()
        )
    return value
