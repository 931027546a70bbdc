"""The number of groups that a table shows, as a function of the numbers that it tests."""

from __future__ import annotations

from fractions import Fraction

from qserver.errors import SqlError
from qserver.query.linear import LinearQuery
from qserver.query.sql.functions.group_count import Passing, columns_of
from qserver.query.sql.functions.meaning import Linear, Several
from qserver.query.sql.regions import ProductTerm
from qserver.query.sql.statement import Statement, Sum
from qserver.query.sql.text import SqlText
from qserver.query.weights import ScaledWeights


def passing_groups(table: Statement) -> Several:
    """How many rows of a table pass its test.

    Raises:
        SqlError: it has no groups, cuts them by LIMIT, or tests other numbers than counts and sums.
    """
    shape, rows = table.shape, table.rows
    if shape.limit is not None or shape.offset or not table.groups or not rows:
        raise no_groups(table.source)
    columns = () if shape.test is None else columns_of(shape.test)
    cells = [[row.cells[k] for k in columns] for row in rows]
    sums = [[cell for cell in row if isinstance(cell, Sum) and cell.offset == 0] for row in cells]
    if shape.test is None or not columns or any(len(row) != len(columns) for row in sums):
        raise table.refuse(
            "count groups by counts and sums in HAVING, compared with numbers",
            "Nearest: HAVING COUNT(*) >= 50.",
        )
    whole = tuple(all(is_whole(row[k].query) for row in sums) for k in range(len(columns)))
    function = Passing(shape.test, columns, whole, len(rows))
    return Several(tuple(_linear(cell.query) for row in sums for cell in row), function)


def is_whole(query: LinearQuery) -> bool:
    """Whether its value is a whole number for all data."""
    return all(term.coefficient.denominator == 1 for term in query.terms)


def _linear(query: LinearQuery) -> Linear:
    return Linear(
        tuple(
            ProductTerm(
                term.coefficient,
                {f.axis: ScaledWeights(Fraction(1), f.weights) for f in term.factors},
            )
            for term in query.terms
        )
    )


def no_groups(source: SqlText) -> SqlError:
    """The error of a count of what are no groups, or not all."""
    return source.refuse(
        "count the groups of GROUP BY, without LIMIT",
        source.end,
        hint="Nearest: COUNT(*) FROM (SELECT a FROM ... GROUP BY a HAVING COUNT(*) >= 50).",
    )
