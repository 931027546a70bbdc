"""The clauses that SQL does not have: how exact the answer shall be.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from sqlglot import Token, TokenType

from qserver.errors import InputError, QueryError
from qserver.query.asking.prior import Prior
from qserver.query.asking.reading import AS_EVER, Reading
from qserver.query.domain import decimal_text
from qserver.query.looking import NOTHING_SEEN, Looking, Rule, Selection
from qserver.query.measure import Measure
from qserver.query.numbers import exact_number
from qserver.query.requirement import MIN_DELTA
from qserver.query.sql.text import SqlText
from qserver.query.sql.tokens import CHOICES, READINGS, TokenizedSql


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


MOST_CONFIDENCE = 1 - Fraction(str(MIN_DELTA))
_LEAST_PERCENT = 50


@dataclass(frozen=True)
class Exactness:
    """What a column, or a text, says of its intervals; None for what it does not say.

    Args:
        half_width: w, in the units of the number.
        confidence: of each interval.
        part: the half-width as a part of the number itself, such as 1/50.
    """

    half_width: Fraction | None = None
    confidence: Fraction | None = None
    part: Fraction | None = None

    @property
    def has_length(self) -> bool:
        """Whether it says how long an interval may be."""
        return self.half_width is not None or self.part is not None

    def or_else(self, other: Exactness) -> Exactness:
        """This one, and what it does not say by another."""
        length = self if self.has_length else other
        confidence = other.confidence if self.confidence is None else self.confidence
        return Exactness(length.half_width, confidence, length.part)


UNSAID = Exactness()
STATED_BASE = Fraction(1000)
"""The least number of records in a denominator, or of a number that PERCENT is about, where neither
the text nor history says more. Intervals hold whatever it is; it bounds what they cost."""


def least_base(typed: Fraction | None, known: float) -> float:
    """The least number of records: as typed, else the stated one; more if history says so.

    What history knows never lowers it: that a group is small shows on the way, and the same
    statement would cost more for it when it is asked again.
    """
    return max(float(STATED_BASE if typed is None else typed), known)


@dataclass
class ExactnessReader(TokenReader):
    """Reads WITHIN and CONFIDENCE, each once."""

    half_width: Fraction | None = None
    confidence: Fraction | None = None
    part: Fraction | None = None

    def reads(self) -> bool:
        """Whether one of them comes next; if so, moves past it."""
        if self.word("WITHIN"):
            is_again = self.found.has_length
            self._length()
            if is_again:
                raise self.source.refuse("say WITHIN once", self.last())
        elif self.word("CONFIDENCE"):
            is_again = self.confidence is not None
            self.confidence = self._confidence()
            if is_again:
                raise self.source.refuse("say CONFIDENCE once", self.last())
        else:
            return False
        return True

    @property
    def found(self) -> Exactness:
        """What was read."""
        return Exactness(self.half_width, self.confidence, self.part)

    def _length(self) -> None:
        value = self.number("after WITHIN")
        if not self.word("PERCENT", "%"):
            self.half_width = value
        elif self.word("OF"):
            self.half_width = value * self.number("after OF") / 100
        elif value >= 100:
            raise self.source.refuse(
                "be within less than 100 percent of the number",
                self.last(),
                hint="Nearest: WITHIN 5 PERCENT, or WITHIN 5 PERCENT OF 10000.",
            )
        else:
            self.part = value / 100

    def _confidence(self) -> Fraction:
        value = self.number("after CONFIDENCE")
        if self.word("PERCENT", "%") or _LEAST_PERCENT <= value < 100:
            value /= 100
        if value >= 1:
            raise self.source.refuse(
                "have a CONFIDENCE below 1", self.last(), hint="Nearest: CONFIDENCE 0.95."
            )
        if value > MOST_CONFIDENCE:
            raise self.source.refuse(
                f"have a CONFIDENCE of at most {decimal_text(MOST_CONFIDENCE)}", self.last()
            )
        return value


def exactness_of(source: SqlText, tokens: Sequence[Token]) -> Exactness:
    """What stands behind an item; SqlError if it is something else."""
    reader = ExactnessReader(source, tokens)
    while reader.i < len(tokens):
        if not reader.reads():
            raise source.refuse("have WITHIN and CONFIDENCE alone behind an item", tokens[reader.i])
    return reader.found


DEFAULT_CONFIDENCE = Fraction(19, 20)


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
        reading: how the posterior is read.
        part: the half-width as a part of each number itself, or None.
        as_of: the period that was the last sealed one at the time to ask about; '' for now.
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
        """What it says of all intervals."""
        return Exactness(self.half_width, self.confidence, self.part)


@dataclass
class _Reader(ExactnessReader):
    """What was read so far of the clauses."""

    assuming: Fraction | None = None
    chosen: Selection | None = None
    reading: Reading = AS_EVER
    as_of: str = ""
    at_most: Fraction | None = None
    is_only: bool = False


def read_clauses(sql: TokenizedSql) -> Clauses:
    """The clauses of a text; SqlError if one is malformed, or comes twice."""
    reader = _Reader(sql.source, sql.clauses)
    said = dict.fromkeys(("SIMULTANEOUS", "CONSISTENT", "INDEPENDENT"), False)
    while reader.i < len(reader.tokens):
        if reader.reads():
            continue
        if reader.word(*_READ):
            _READ[reader.last().text.upper()](reader)
        elif reader.word(*said):
            said[reader.last().text.upper()] = True
        elif reader.word(*READINGS):
            reader.reading = with_word(reader, reader.reading, reader.last().text.upper())
        else:
            raise sql.source.refuse(
                "end with WITHIN, CONFIDENCE, SIMULTANEOUS, CONSISTENT, ASSUMING, AT MOST, ONLY "
                "THIS, AS OF, AS LARGEST OF, INDEPENDENT, GIVEN and BY alone",
                reader.tokens[reader.i],
            )
    return Clauses(
        reader.half_width,
        reader.confidence,
        said["SIMULTANEOUS"],
        said["CONSISTENT"],
        reader.assuming,
        "only_this" if reader.is_only else None,
        _looking(reader, independent=said["INDEPENDENT"]),
        reader.reading,
        reader.part,
        reader.as_of,
        reader.at_most,
    )


def _assuming(reader: _Reader) -> None:
    """Read the least number of records; SqlError if it is said twice."""
    if reader.word("AT"):
        reader.word("LEAST")
    if reader.assuming is not None:
        raise reader.source.refuse("say ASSUMING once", reader.last())
    reader.assuming = reader.number("after ASSUMING AT LEAST")


def _at_most(reader: _Reader) -> None:
    """Read what may be charged; SqlError if it is said twice."""
    if not reader.word("MOST"):
        raise reader.source.refuse("say MOST after AT", reader.last())
    if reader.at_most is not None:
        raise reader.source.refuse("say AT MOST once", reader.last())
    reader.at_most = reader.number("of epsilon after AT MOST")


def _only_this(reader: _Reader) -> None:
    """Read THIS; SqlError if it does not follow."""
    if not reader.word("THIS"):
        raise reader.source.refuse("say THIS after ONLY", reader.last())
    reader.is_only = True


def chosen(clauses: Clauses, selection: Selection | None, source: SqlText) -> Clauses:
    """The clauses with the choice that HAVING, ORDER BY and LIMIT make.

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


def _choose(reader: _Reader) -> None:
    """Read the period or the choice after AS."""
    if reader.word("OF"):
        _once_as_of(reader)
        return
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


def _once_as_of(reader: _Reader) -> None:
    if reader.as_of:
        raise reader.source.refuse("say AS OF once", reader.last())
    reader.as_of = reader.text("AS OF", "Such as AS OF '2024-W17'.")


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


_READ = {"ASSUMING": _assuming, "AT": _at_most, "AS": _choose, "ONLY": _only_this}
"""What reads on after these words."""
