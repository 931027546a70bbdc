"""What weighted rows leave of a query to the tables, and whether their noise is independent."""

from __future__ import annotations

from collections.abc import Iterable

from qserver.inference.tables.answer import WeightedRow
from qserver.inference.tables.blocks.box import as_box, remainder
from qserver.inference.tables.generation import AlphaState, Generation
from qserver.query.primitive import Primitive
from qserver.records.history import Measurement


def left_by(query: Primitive, rows: Iterable[WeightedRow]) -> Primitive:
    """What weighted rows leave of a row, exactly."""
    return remainder(query.row, ((found.row.row, found.weight) for found in rows))


def is_cell(generation: Generation, state: AlphaState, row: Measurement) -> bool:
    """Whether a row is a cell of a table that had a part in this state."""
    box = as_box(row.row)
    tables = (generation.tables.get(block) for block in state.alphas)
    return any(t is not None and t.partition.cell_of(box) is not None for t in tables)
