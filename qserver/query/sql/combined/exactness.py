"""How exact each function of sums in a statement is asked to be, and the questions of its sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from qserver.query.linear import LinearQuery
from qserver.query.sql.clauses import least_base
from qserver.query.sql.functions.calculated import at_once, widths_at_once
from qserver.query.sql.functions.function import Combined, Order
from qserver.query.sql.functions.quantile import MOST_THRESHOLDS
from qserver.query.sql.functions.thresholds import QuantileOf
from qserver.query.sql.statement import MAX_CELLS, Statement
from qserver.query.sql.tables.relative import confidence_of

Place = tuple[int, int]
"""The row and the column of a cell."""

OfSeveral = Mapping[Place, tuple[float, ...]]
"""Per function of sums the half-widths of its sums."""


@dataclass(frozen=True)
class OrderAsked:
    """A number that is told by places in order, with the required exactness."""

    order: Order
    queries: tuple[LinearQuery, ...]
    half_width: float
    confidence: float


def order_asked(statement: Statement) -> dict[Place, OrderAsked]:
    """The numbers of a statement that are told by places in order, if one by one, by their place.

    Raises:
        SqlError: the text does not say how long an interval may be, or says it in percent.
    """
    found = dict[Place, OrderAsked]()
    for i, k, cell in combined_cells(statement):
        if cell.function.smooth is not None:
            continue
        half_width = float(steps_half_width(statement, k, cell))
        order = None if statement.clauses.simultaneous else cell.function.order
        if order is not None:
            confidence = confidence_of(statement, k)
            found[i, k] = OrderAsked(order, cell.queries, half_width, confidence)
    return found


def order_at_once(statement: Statement) -> OfSeveral:
    """The half-widths of the counts of those that hold at once; raises as `order_asked` does."""
    base, found = least_base(statement.clauses.assuming, 0.0), dict[Place, tuple[float, ...]]()
    for i, k, cell in combined_cells(statement):
        if statement.clauses.simultaneous and cell.function.smooth is None:
            half_width = float(steps_half_width(statement, k, cell))
            found[i, k] = widths_at_once(cell.function, half_width, base)
    return found


def steps_half_width(statement: Statement, column: int, cell: Combined) -> Fraction:
    """The half-width that is asked of a function; raises as `order_asked` does."""
    half_width = statement.exactness_of(column).half_width
    if half_width is None:
        of = "the units of the number" if cell.function.has_steps else "records"
        raise statement.refuse(
            f"say how long the interval may be, in {of}",
            f"Nearest: WITHIN {1 if cell.function.has_steps else 50}.",
        )
    return half_width


def several_confidence(statement: Statement, column: int, cell: Combined) -> float:
    """The confidence of the interval of each sum; that of the cell but where it counts groups."""
    confidence, order = confidence_of(statement, column), cell.function.order
    if statement.clauses.simultaneous or order is None:
        return confidence
    return order.part_confidence(confidence)


def combined_cells(statement: Statement) -> Iterator[tuple[int, int, Combined]]:
    """Row, column and cell of each function of sums.

    Where all intervals must hold at once, quantiles are told by all counts below values.
    """
    for i, row in enumerate(statement.rows):
        for k, cell in enumerate(row.cells):
            if isinstance(cell, Combined):
                if statement.clauses.simultaneous and cell.function.order is not None:
                    yield i, k, _at_once(cell, statement)
                else:
                    yield i, k, cell


def _at_once(cell: Combined, statement: Statement) -> Combined:
    room = MAX_CELLS // max(len(statement.rows) * len(statement.columns), 1)
    found = at_once(cell.function, cell.queries, min(MOST_THRESHOLDS, room))
    return replace(cell, queries=found.queries, function=found.function)


def are_counts(queries: Sequence[LinearQuery], statement: Statement) -> bool:
    """Whether each of some queries counts values behind a quantile, and there is one."""
    cells = [cell for _, _, cell in combined_cells(statement)]
    orders = [(order, cell.queries) for cell in cells if (order := cell.function.order)]
    counted = {
        (bases[place], of)
        for order, bases in orders
        for _, place, of in order.terms
        if isinstance(of, QuantileOf)
    }
    return bool(queries) and all(any(of.counts(base, q) for base, of in counted) for q in queries)
