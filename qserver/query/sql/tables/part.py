"""What one SELECT asks for, before it is a statement or a part of one."""

from __future__ import annotations

from dataclasses import dataclass

from qserver.query.sql.clauses import Exactness
from qserver.query.sql.shaping.ranks import Rank
from qserver.query.sql.shaping.rounding import Rounding
from qserver.query.sql.shaping.shape import PLAIN, Shape
from qserver.query.sql.statement import Bounds, Course, Row
from qserver.query.sql.tables.units import Unit


@dataclass(frozen=True)
class Part:
    """The table of one SELECT.

    Args:
        columns, groups, rows, bounds, shape, digits, ranks, exactness, course, remarks, units,
            stops: as of a `Statement`.
        places: per item of SELECT the index of its group, or of its column; None for the other.
    """

    columns: tuple[str, ...]
    groups: tuple[str, ...]
    rows: tuple[Row, ...]
    bounds: tuple[Bounds, ...] = ()
    shape: Shape = PLAIN
    digits: tuple[Rounding | None, ...] = ()
    ranks: tuple[Rank, ...] = ()
    exactness: tuple[Exactness, ...] = ()
    places: tuple[tuple[int | None, int | None], ...] = ()
    course: Course | None = None
    remarks: tuple[str, ...] = ()
    units: tuple[Unit, ...] = ()
    stops: tuple[int | None, ...] = ()
