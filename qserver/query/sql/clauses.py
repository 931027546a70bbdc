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

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from qserver.errors import InputError
from qserver.query.asking.reading import AS_EVER, Reading
from qserver.query.looking import NOTHING_SEEN, Looking, Rule, Selection
from qserver.query.measure import Measure
from qserver.query.sql.readings import with_word
from qserver.query.sql.tables.exactness import Exactness, ExactnessReader
from qserver.query.sql.text import SqlText
from qserver.query.sql.tokens import CHOICES, READINGS, TokenizedSql

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
