"""What weighted rows leave of a query to the tables, and whether their noise is independent."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from qserver.inference.tables.answer import WeightedRow
from qserver.inference.tables.blocks.box import as_box
from qserver.inference.tables.generation import AlphaState, Generation
from qserver.query.primitive import Primitive, primitive
from qserver.records.history import Measurement


def left_by(query: Primitive, rows: Iterable[WeightedRow]) -> Primitive:
    """What weighted rows leave of a row, exactly: every float is a dyadic fraction."""
    left = query.row
    for found in rows:
        left = left - found.row.row.scaled(Fraction(found.weight))
    return primitive(as_box(left))


def is_cell(generation: Generation, state: AlphaState, row: Measurement) -> bool:
    """Whether a row is a cell of a table that had a part in this state."""
    box = as_box(row.row)
    tables = (generation.tables.get(block) for block in state.alphas)
    return any(t is not None and t.partition.cell_of(box) is not None for t in tables)
