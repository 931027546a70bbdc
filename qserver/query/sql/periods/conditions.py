"""Compare an attribute of periods with labels and dates."""

from __future__ import annotations

from sqlglot import exp

from qserver.errors import QueryError
from qserver.query.calendar.ends import index_of_period, range_from, range_up_to
from qserver.query.calendar.units import EXAMPLES
from qserver.query.domain import Attribute
from qserver.query.sql.text import SqlText


def compared(attribute: Attribute, kind: type[exp.Expr], end: exp.Expr, source: SqlText) -> range:
    """Indexes of the periods for which a comparison with `end` holds, but for <>: those of =.

    Raises:
        SqlError: the end is no label or date, or cuts through a period.
        PeriodNotSealedError: the end's own period has no data yet.
    """
    text = _text(attribute, end, source)

    def found() -> range:
        if kind in (exp.EQ, exp.NEQ):
            at = index_of_period(attribute, text, name="sql")
            return range(at, at + 1)
        # What lies before the end, and what does not; the end's own period is before or after.
        of = range_up_to if kind in (exp.LT, exp.LTE) else range_from
        return of(attribute, text, name="sql", after=kind in (exp.LTE, exp.GT))

    try:
        return found()
    except QueryError as exc:
        said = exc.condition
        if said.startswith("be "):
            said = f"compare `{attribute.name}` with {said.removeprefix('be ')}"
        raise source.refuse(said, end, hint=exc.hint) from exc


def _text(attribute: Attribute, node: exp.Expr, source: SqlText) -> str:
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return str(node.this)
    name = f"`{attribute.name}`"
    example = attribute.value_names[0]
    if attribute.periods is not None and attribute.periods.every != "day":
        example += f"' or '{EXAMPLES['day']}"
    raise source.refuse(
        f"compare {name} with periods or dates in quotes", node, hint=f"Such as '{example}'."
    )
