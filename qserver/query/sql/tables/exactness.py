"""How exact one column shall be: WITHIN and CONFIDENCE behind an item of SELECT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import Token

from qserver.query.domain import decimal_text
from qserver.query.requirement import MIN_DELTA
from qserver.query.sql.readings import TokenReader
from qserver.query.sql.text import SqlText

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
