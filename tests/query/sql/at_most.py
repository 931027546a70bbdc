"""The questions that a statement asks at most where history knows nothing, without a server."""

from __future__ import annotations

from qserver.answering.smooth import SmoothOf
from qserver.inference.smooth.search import widths_at_most
from qserver.query.sql.cells import StatementQuestions, asked
from qserver.query.sql.combined.asked import Place, order_asked, several_asked
from qserver.query.sql.combined.smooth import smooth_asked
from qserver.query.sql.statement import Statement
from qserver.query.sql.tables.exactness import least_base


def at_most(statement: Statement, *, fewest: float = 0.0) -> StatementQuestions:
    """The questions of a statement.

    Args:
        fewest: records that are known to be in each group.
    """
    base = float(statement.clauses.assuming or 0)
    widths: dict[Place, tuple[float, ...]] = {
        place: one.target(base).most for place, one in several_asked(statement).items()
    }
    least = least_base(statement.clauses.assuming, fewest)
    for place, one in smooth_asked(statement).items():
        of = SmoothOf(one.cell.queries, one.cell.function, one.smooth, one.confidence)
        widths[place] = tuple(widths_at_most(of.number(one.half_width, least), least).tolist())
    for place, ordered in order_asked(statement).items():
        widths[place] = (base,) * len(ordered.queries)
    return asked(statement, of_several=widths)
