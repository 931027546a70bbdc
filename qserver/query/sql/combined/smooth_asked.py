"""How exact each smooth number of a statement is asked to be."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from qserver.errors import RequirementError
from qserver.query.sql.combined.asked import Place, steps_half_width
from qserver.query.sql.combined.function import Combined, Smooth
from qserver.query.sql.combined.smooth import QuotientOf, function_cells
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.relative import confidence_of


@dataclass(frozen=True)
class SmoothAsked:
    """A smooth number with the required exactness."""

    cell: Combined
    smooth: Smooth
    half_width: float
    confidence: float


def smooth_asked(statement: Statement) -> dict[Place, SmoothAsked]:
    """The smooth numbers of a statement, by their place.

    Raises:
        SqlError: the text does not say how long an interval may be.
        RequirementError: a quotient is the same for all data.
    """
    found = dict[Place, SmoothAsked]()
    for i, k, cell in function_cells(statement):
        if (smooth := cell.function.smooth) is None:
            continue
        half_width = _half_width(statement, k, cell)
        found[i, k] = SmoothAsked(cell, smooth, float(half_width), confidence_of(statement, k))
    return found


def _half_width(statement: Statement, column: int, cell: Combined) -> Fraction:
    function = cell.function
    if not isinstance(function, QuotientOf):
        return steps_half_width(statement, column, cell)
    if function.bounds is not None and function.bounds.least == function.bounds.most:
        raise RequirementError("sql", "not ask for a quotient that is the same for all records")
    exact = statement.exactness_of(column)
    if exact.part is not None:
        return exact.part * _least_size(statement, function)
    if exact.half_width is None:
        raise statement.source.refuse(
            "say how long the interval may be",
            statement.source.end,
            hint="Nearest: WITHIN 50 CONFIDENCE 0.95, 50 more or less with 95 percent confidence.",
        )
    return exact.half_width


def _least_size(statement: Statement, function: QuotientOf) -> Fraction:
    """The least that a quotient can be: a percentage is one of that."""
    if function.bounds is not None:
        low, high = (function.middle + end for end in function.bounds.whole)
        if (least := max(low, -high)) > 0:
            return least
    raise statement.source.refuse(
        "not ask for a percentage of a quotient that may be zero",
        statement.source.end,
        hint="Nearest: WITHIN 0.02, in the units of the quotient.",
    )
