"""The clauses beyond SQL: the exactness of answers.

WITHIN w | WITHIN p PERCENT OF n     half-width of the interval
WITHIN p PERCENT                     the same, in percent of the number itself
CONFIDENCE c | CONFIDENCE p PERCENT
SIMULTANEOUS                         all intervals hold at once with that confidence
CONSISTENT                           also the values of one non-negative table
ASSUMING [AT LEAST] n                records in the denominator of a quotient
AT MOST e                            epsilon that the statement may be charged, all steps together
ONLY THIS                            nothing is measured for later questions
AS OF 'period'                       as it was when that period was the last sealed one
AS LARGEST [k] OF m | AS LEAST [k] OF m | AS ANY OF m
                                     intervals hold after a choice among m numbers
INDEPENDENT                          fresh noise, combined with nothing released before
GIVEN NON NEGATIVE | GIVEN KNOWN TOTAL | GIVEN BETWEEN a AND b
                                     what is held true of the answer beforehand
BY CONVOLUTION [STEP s] | BY MONTE CARLO [DRAWS n] | BY ERROR e
                                     how its probabilities are computed
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from sqlglot import Token, TokenType

from qserver.errors import InputError, QueryError, SqlError
from qserver.query.asking.after_looking import NOTHING_SEEN, Looking, Rule, Selection
from qserver.query.asking.method_and_prior import AS_EVER, Prior, Reading
from qserver.query.domain import decimal_text
from qserver.query.exact_numbers import exact_number
from qserver.query.requirement import MIN_DELTA, Measure
from qserver.query.sql.text import SqlText
from qserver.query.sql.tokens import CHOICES, READINGS, TokenizedSql

MOST_CONFIDENCE = 1 - Fraction(str(MIN_DELTA))
_LEAST_PERCENT = 50
DEFAULT_CONFIDENCE = Fraction(19, 20)


@dataclass(frozen=True)
class Exactness:
    """The exactness of a column, or a text; None for unset values.

    Args:
        half_width: w, in the units of the number.
        confidence: of each interval.
        part: the half-width as a part of the number itself, such as 1/50.
        by_kind: for a default only: half-widths by kind of number.
    """

    half_width: Fraction | None = None
    confidence: Fraction | None = None
    part: Fraction | None = None
    by_kind: tuple[tuple[str, Fraction], ...] = ()

    @property
    def has_length(self) -> bool:
        """Whether it sets a length."""
        return self.half_width is not None or self.part is not None

    def or_else(self, other: Exactness) -> Exactness:
        """This exactness, with unset values from another."""
        length = self if self.has_length else other
        confidence = other.confidence if self.confidence is None else self.confidence
        return Exactness(length.half_width, confidence, length.part)


UNSAID = Exactness()
STATED_BASE = Fraction(1000)
"""The least number of records in a denominator, or of a number that PERCENT is about, where neither
the text nor history says more. Intervals hold whatever it is; it bounds what they cost."""


def least_base(typed: Fraction | None, known: float) -> float:
    """The least number of records: as typed, else the stated one, or more by history.

    History never lowers it: otherwise a group that proves small would make the repeated statement
    dearer.
    """
    return max(float(STATED_BASE if typed is None else typed), known)


@dataclass(frozen=True)
class Clauses:
    """The text's clauses on exactness.

    Args:
        half_width: w, in the units of the answer, or None.
        confidence: of each interval, or None.
        simultaneous: whether all intervals must hold at once.
        consistent: whether values of one non-negative table are added.
        assuming: least number of records in the denominator of each quotient, or None.
        measure: what may be measured, or None.
        looking: past or later looks.
        reading: method and prior.
        part: the half-width as a part of each number itself, or None.
        as_of: the last sealed period at the time in question; '' for now.
        at_most: epsilon that may be charged, or None.
    """

    half_width: Fraction | None = None
    confidence: Fraction | None = None
    simultaneous: bool = False
    consistent: bool = False
    assuming: Fraction | None = None
    measure: Measure | None = None
    looking: Looking = NOTHING_SEEN
    reading: Reading = AS_EVER
    part: Fraction | None = None
    as_of: str = ""
    at_most: Fraction | None = None

    @property
    def exactness(self) -> Exactness:
        """The exactness of all intervals."""
        return Exactness(self.half_width, self.confidence, self.part)


class _Reader:
    """Reads the tokens of clauses in order; `said`: their values by name."""

    def __init__(self, source: SqlText, tokens: Sequence[Token]) -> None:
        self.source, self.tokens, self.i = source, tokens, 0
        self.said = dict[str, Any]()

    def read(self, clauses: Collection[str], otherwise: str) -> dict[str, Any]:
        """The values of all tokens; SqlError for other clauses."""
        while self.i < len(self.tokens):
            if not self.word(*clauses):
                raise self.source.refuse(otherwise, self.tokens[self.i])
            _READ[self.last().text.upper()](self)
        return self.said

    def last(self) -> Token:
        """The token before the present place."""
        return self.tokens[self.i - 1]

    def refuse(self, condition: str, hint: str = "") -> SqlError:
        """The error at the last token."""
        return self.source.refuse(condition, self.last(), hint=hint)

    def once(self, name: str, word: str) -> None:
        """SqlError if it is already set."""
        if name in self.said:
            raise self.refuse(f"say {word} once")

    def word(self, *words: str) -> bool:
        """Whether one of `words` comes next; if so, moves past it."""
        matches = self.i < len(self.tokens) and self.tokens[self.i].text.upper() in words
        self.i += matches
        return matches

    def then(self, word: str) -> None:
        """Move past a word that must follow."""
        if not self.word(word):
            raise self.refuse(f"say {word} after {self.last().text.upper()}")

    def take(self, kind: TokenType) -> Token | None:
        """The next token, if it is of this kind; moves past it."""
        token = self.tokens[self.i] if self.i < len(self.tokens) else None
        if token is None or token.token_type is not kind:
            return None
        self.i += 1
        return token

    def number(self, what: str) -> Fraction:
        """The next number, which is above 0."""
        token = self.take(TokenType.NUMBER)
        value = Fraction(0) if token is None else self._value(token)
        if value <= 0:
            at = token or next(iter(self.tokens[self.i :]), None) or self.source.end
            raise self.source.refuse(f"give a number > 0 {what}", at)
        return value

    def whole(self, what: str) -> int:
        """The next number, which is whole."""
        value = self.number(what)
        if value.denominator != 1:
            raise self.refuse(f"give a whole number {what}")
        return int(value)

    def signed(self, what: str) -> float:
        """The next number, perhaps with a sign."""
        sign = -1 if self.word("-") else 1
        before = self.last()
        token = self.take(TokenType.NUMBER)
        if token is None:
            raise self.source.refuse(f"give a number {what}", before)
        return float(sign * self._value(token))

    def _value(self, token: Token) -> Fraction:
        try:
            return exact_number(token.text, "sql")
        except QueryError as exc:
            raise self.source.refuse(exc.condition, token) from exc


def exactness_of(source: SqlText, tokens: Sequence[Token]) -> Exactness:
    """The exactness behind an item; SqlError for other clauses."""
    otherwise = "have WITHIN and CONFIDENCE alone behind an item"
    return Exactness(**_Reader(source, tokens).read(("WITHIN", "CONFIDENCE"), otherwise))


def read_clauses(sql: TokenizedSql) -> Clauses:
    """The clauses of a text; SqlError if one is malformed, or comes twice."""
    reader = _Reader(sql.source, sql.clauses)
    otherwise = (
        "end with WITHIN, CONFIDENCE, SIMULTANEOUS, CONSISTENT, ASSUMING, AT MOST, ONLY "
        "THIS, AS OF, AS LARGEST OF, INDEPENDENT, GIVEN and BY alone"
    )
    said = reader.read(_READ, otherwise)
    try:
        looking = Looking(said.pop("chosen", None), independent=said.pop("independent", False))
    except InputError as exc:
        raise reader.refuse("not have both INDEPENDENT and AS LARGEST OF", exc.hint) from exc
    return Clauses(**said, looking=looking)


def _within(reader: _Reader) -> None:
    is_again = not reader.said.keys().isdisjoint(("half_width", "part"))
    value = reader.number("after WITHIN")
    if not reader.word("PERCENT", "%"):
        found = {"half_width": value}
    elif reader.word("OF"):
        found = {"half_width": value * reader.number("after OF") / 100}
    elif value >= 100:
        raise reader.refuse(
            "be within less than 100 percent of the number",
            "Nearest: WITHIN 5 PERCENT, or WITHIN 5 PERCENT OF 10000.",
        )
    else:
        found = {"part": value / 100}
    if is_again:
        raise reader.refuse("say WITHIN once")
    reader.said |= found


def _confidence(reader: _Reader) -> None:
    value = reader.number("after CONFIDENCE")
    if reader.word("PERCENT", "%") or _LEAST_PERCENT <= value < 100:
        value /= 100
    if value >= 1:
        raise reader.refuse("have a CONFIDENCE below 1", "Nearest: CONFIDENCE 0.95.")
    if value > MOST_CONFIDENCE:
        raise reader.refuse(f"have a CONFIDENCE of at most {decimal_text(MOST_CONFIDENCE)}")
    reader.once("confidence", "CONFIDENCE")
    reader.said["confidence"] = value


def _flag(reader: _Reader) -> None:
    reader.said[reader.last().text.lower()] = True


def _assuming(reader: _Reader) -> None:
    if reader.word("AT"):
        reader.word("LEAST")
    reader.once("assuming", "ASSUMING")
    reader.said["assuming"] = reader.number("after ASSUMING AT LEAST")


def _at_most(reader: _Reader) -> None:
    reader.then("MOST")
    reader.once("at_most", "AT MOST")
    reader.said["at_most"] = reader.number("of epsilon after AT MOST")


def _only_this(reader: _Reader) -> None:
    reader.then("THIS")
    reader.said["measure"] = "only_this"


def _as(reader: _Reader) -> None:
    """The period or the choice after AS."""
    if reader.word("OF"):
        reader.once("as_of", "AS OF")
        before, token = reader.last(), reader.take(TokenType.STRING)
        if token is None or not token.text:
            raise reader.source.refuse(
                "give a period in quotes after AS OF", before, hint="Such as AS OF '2024-W17'."
            )
        reader.said["as_of"] = token.text
        return
    reader.once("chosen", "AS LARGEST OF")
    if not reader.word(*CHOICES):
        raise reader.refuse("say LARGEST, LEAST or ANY after AS")
    rule, first = cast("Rule", reader.last().text.lower()), 1
    if not reader.word("OF"):
        first = reader.whole(f"or OF after {rule.upper()}")
        if not reader.word("OF"):
            raise reader.refuse(
                "say among how many the choice is made", "Nearest: AS LARGEST OF 64."
            )
    m = reader.whole("after OF")
    try:
        reader.said["chosen"] = Selection(m, rule, first)
    except InputError as exc:
        wrong = f"name a choice whose `{exc.name}` can {exc.condition}"
        raise reader.refuse(wrong, exc.hint) from exc


def _reading(reader: _Reader) -> None:
    """The prior after GIVEN, or the method after BY."""
    word, found = reader.last().text.upper(), reader.said.get("reading", AS_EVER)
    by = (found.method, found.error) != (AS_EVER.method, AS_EVER.error)
    if found.prior is not None if word == "GIVEN" else by:
        raise reader.refuse(f"say {word} once")
    try:
        said = {"prior": _prior(reader)} if word == "GIVEN" else _method(reader)
        reader.said["reading"] = replace(found, **said)
    except QueryError:
        raise
    except InputError as exc:
        name = "prior" if word == "GIVEN" else exc.name
        raise reader.refuse(f"let {name} {exc.condition}", exc.hint) from exc


def _prior(reader: _Reader) -> Prior:
    if reader.word("BETWEEN"):
        low = reader.signed("after BETWEEN")
        reader.then("AND")
        return Prior("between", low, reader.signed("after AND"))
    if reader.word("NON"):
        reader.then("NEGATIVE")
        return Prior("non-negative")
    if reader.word("KNOWN"):
        reader.then("TOTAL")
        return Prior("known-total")
    raise reader.refuse("say NON NEGATIVE, KNOWN TOTAL or BETWEEN")


def _method(reader: _Reader) -> dict[str, Any]:
    if reader.word("ERROR"):
        return {"error": float(reader.number("after ERROR"))}
    if reader.word("CONVOLUTION"):
        step = float(reader.number("after STEP")) if reader.word("STEP") else None
        return {"method": "convolution", "step": step}
    reader.word("MONTE")
    reader.then("CARLO")
    draws = reader.whole("after DRAWS") if reader.word("DRAWS") else None
    return {"method": "monte-carlo", "draws": draws}


_READ = (
    {"WITHIN": _within, "CONFIDENCE": _confidence, "ASSUMING": _assuming, "AT": _at_most}
    | {"AS": _as, "ONLY": _only_this}
    | dict.fromkeys(READINGS, _reading)
    | dict.fromkeys(("SIMULTANEOUS", "CONSISTENT", "INDEPENDENT"), _flag)
)
"""What reads on after these words."""


def chosen(clauses: Clauses, selection: Selection | None, source: SqlText) -> Clauses:
    """The clauses with the choice by HAVING, ORDER BY and LIMIT.

    Raises:
        SqlError: the text names another choice.
    """
    said = clauses.looking.selected_from
    if selection is None or clauses.simultaneous or clauses.looking.independent:
        # Intervals that all hold at once hold for any choice.
        return clauses
    if said is None:
        return replace(clauses, looking=Looking(selection))
    is_said = said.rule == selection.rule and said.first >= selection.first
    if said.rule == "any" or is_said:
        return clauses
    m = max(said.m, selection.m)
    raise source.refuse(
        "name no other choice than HAVING, ORDER BY and LIMIT make",
        source.end,
        hint=f"Nearest: AS ANY OF {m}, or leave it out.",
    )
