"""What a text of SQL says of records with a missing value, which count as one more value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from qserver.query.asking.missing import kept_missing, remarks_on_missing
from qserver.query.linear import LinearQuery
from qserver.query.sql.attributes import Names
from qserver.query.sql.combined.function import Combined
from qserver.query.sql.statement import Cell, Row, Sum


def missing_in(select: exp.Select, names: Names, rows: Sequence[Row]) -> tuple[str, ...]:
    """That a SELECT counts records with a missing value, a sentence per attribute.

    Its numbers mention the attribute and keep them, or it counts its values.
    """
    domain = names.domain
    kept = {
        axis
        for row in rows
        for cell in row.cells
        for query in _queries(cell)
        for axis in kept_missing(query, domain)
    }
    return remarks_on_missing(domain, {*kept, *_counted(select, names)})


def _queries(cell: Cell) -> tuple[LinearQuery, ...]:
    if isinstance(cell, Sum):
        return (cell.query,)
    return cell.queries if isinstance(cell, Combined) else (cell.numerator, cell.denominator)


def _counted(select: exp.Select, names: Names) -> Iterator[int]:
    """Attributes of labels whose values are counted: COUNT(sex) is that of all records."""
    for count in select.find_all(exp.Count):
        column = count.this.unnest() if isinstance(count.this, exp.Expr) else None
        if column is None or not names.is_known(column):
            continue
        axis = names.any_axis(column)
        attribute = names.domain.attributes[axis]
        if attribute.missing == "other" and not attribute.is_numeric:
            yield axis
