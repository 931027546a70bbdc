"""The questions that a statement asks at most where history knows nothing, without a server."""

from __future__ import annotations

import math

from qserver.answering.quantiles import OrderOf
from qserver.answering.smooth_numbers import SmoothOf
from qserver.inference.smooth.search import widths_at_most
from qserver.query.sql.cells import StatementQuestions, asked
from qserver.query.sql.exactness import least_base
from qserver.query.sql.statement import Statement
from qserver.query.sql.statistics.smooth_functions import (
    Place,
    order_asked,
    order_at_once,
    smooth_asked,
)


def at_most(statement: Statement, *, fewest: float = 0.0) -> StatementQuestions:
    """The questions of a statement.

    Args:
        fewest: records that are known to be in each group.
    """
    base = float(statement.clauses.assuming or 0)
    widths: dict[Place, tuple[float, ...]] = {**order_at_once(statement)}
    least = least_base(statement.clauses.assuming, fewest)
    for place, one in smooth_asked(statement).items():
        smooth = SmoothOf(one.cell.queries, one.cell.function, one.smooth, one.confidence)
        widths[place] = tuple(widths_at_most(smooth.number(one.half_width, least), least).tolist())
    for place, ordered in order_asked(statement).items():
        of = OrderOf.of(ordered.order, ordered.queries, ordered.confidence)
        terms = of.numbers(ordered.half_width, least_base(statement.clauses.assuming, 0.0))
        halves = (term.last_halves(term.asked.unknown) for term in terms)
        found = (half if math.isfinite(half) else base for part in halves for half in part)
        widths[place] = tuple(found)
    return asked(statement, of_several=widths)
