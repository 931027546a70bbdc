"""How exact each function of sums in a statement is asked to be, and the questions of its sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from qserver.query.sql.combined.function import Combined, KnownPart, judging
from qserver.query.sql.combined.target import SeveralTarget
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.relative import confidence_of

Place = tuple[int, int]
"""The row and the column of a cell."""

OfSeveral = Mapping[Place, tuple[float, ...]]
"""Per function of sums the half-widths of its sums."""
KnownSeveral = Mapping[Place, tuple[KnownPart, ...]]
"""Per function of sums what history says of its sums."""


@dataclass(frozen=True)
class SeveralAsked:
    """A function of sums with the required exactness.

    Args:
        half_width: of the value, or of its sums where these are asked at once.
        part_confidence: of the interval of each sum.
    """

    cell: Combined
    half_width: float
    part_confidence: float

    def target(self, base: float) -> SeveralTarget:
        """How exact its sums must be, for `base` records or more."""
        function = judging(self.cell.function)
        most = function.widths(self.half_width, base)
        return SeveralTarget(function, self.half_width, most, base)


def several_asked(statement: Statement) -> dict[Place, SeveralAsked]:
    """The functions of sums of a statement that are not smooth, by their place.

    Raises:
        SqlError: the text does not say how long an interval may be, or says it in percent.
    """
    found = dict[Place, SeveralAsked]()
    for i, k, cell in combined_cells(statement):
        if cell.function.smooth is not None:
            continue
        half_width = steps_half_width(statement, k, cell)
        confidence = several_confidence(statement, k, cell)
        found[i, k] = SeveralAsked(cell, float(half_width), confidence)
    return found


def steps_half_width(statement: Statement, column: int, cell: Combined) -> Fraction:
    """The half-width that is asked of a function; raises as `several_asked` does."""
    half_width = statement.exactness_of(column).half_width
    if half_width is None:
        raise statement.source.refuse(
            "say how long the interval may be, in "
            + ("the units of the number" if cell.function.has_steps else "records"),
            statement.source.end,
            hint=f"Nearest: WITHIN {1 if cell.function.has_steps else 50}.",
        )
    return half_width


def several_confidence(statement: Statement, column: int, cell: Combined) -> float:
    """The confidence of the interval of each sum; that of the cell if simultaneous, or smooth."""
    confidence = confidence_of(statement, column)
    if statement.clauses.simultaneous or cell.function.smooth is not None:
        return confidence
    return judging(cell.function).part_confidence(confidence)


def combined_cells(statement: Statement) -> Iterator[tuple[int, int, Combined]]:
    """Row, column and cell of each function of sums."""
    for i, row in enumerate(statement.rows):
        for k, cell in enumerate(row.cells):
            if isinstance(cell, Combined):
                yield i, k, cell
