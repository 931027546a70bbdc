"""What a text of SQL is told about missing values.

That a condition asks for none, and for one version what it leaves out that was counted before: the
meaning of stored statements changed when missing values became NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlglot import exp

from qserver.errors import CapacityError, SqlError
from qserver.query.asking.missing import at_value
from qserver.query.domain import Domain
from qserver.query.linear import LinearQuery, linear_query
from qserver.query.sql.attributes import Names
from qserver.query.sql.functions.function import Combined
from qserver.query.sql.statement import Cell, Row, Sum

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_NEVER_TRUE = "A comparison with NULL is true of no record: IS NULL finds missing values."


def remarks_on_null(select: exp.Select, names: Names) -> tuple[str, ...]:
    """What to know of conditions with NULL, a sentence each."""
    found = dict[str, None]()
    for node in select.find_all(exp.Null):
        above = node.parent
        if isinstance(above, (*_COMPARED, exp.In)):
            found[_NEVER_TRUE] = None
        if not isinstance(above, exp.Is) or isinstance(above.parent, exp.Not):
            continue
        if names.is_known(above.this):
            attribute = names.domain.attributes[names.any_axis(above.this)]
            said = f"No record that counts lacks a value of `{attribute.name}`: those were dropped."
            if attribute.missing != "drop":
                said = f"`{attribute.name}` has no NULL: what has no label is '{attribute.other}'."
            found |= {} if attribute.null else {said: None}
    return tuple(found)


def left_out(
    rows: Sequence[Row], before: Callable[[], Sequence[Row]], domain: Domain, axes: Collection[int]
) -> tuple[str, ...]:
    """That missing values were counted by earlier versions, a sentence per attribute.

    Args:
        before: reads the same SELECT as earlier versions did.
        axes: the attributes of which that may be so.
    """
    try:
        earlier = before()
    except (SqlError, CapacityError):
        return ()  # it was refused
    pairs = [
        (now, then)
        for row, old in zip(rows, earlier, strict=False)
        for one, other in zip(row.cells, old.cells, strict=False)
        for now, then in zip(_queries(one), _queries(other), strict=False)
        if now != then
    ]
    return tuple(
        f"Missing values of `{domain.names[axis]}` are left out, as in SQL; earlier versions "
        "counted them."
        for axis in sorted(axes)
        if any(_differs(*pair, axis, domain.attributes[axis].n_regular) for pair in pairs)
    )


def _differs(now: LinearQuery, then: LinearQuery, axis: int, missing: int) -> bool:
    """Whether two queries weigh the records differently of which a value is missing."""
    parts = [at_value(term, axis, missing) for term in (now - then).terms]
    return not linear_query(now.sizes, parts).is_zero


def _queries(cell: Cell) -> tuple[LinearQuery, ...]:
    if isinstance(cell, Sum):
        return (cell.query,)
    return cell.queries if isinstance(cell, Combined) else (cell.numerator, cell.denominator)
