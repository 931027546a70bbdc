"""Tables of data that arrive over time, extended to the periods that have come since.

A question about a period that the tables have no cells for is planned twice: on the tables as they
are, and on tables with cells for all sealed periods, at the alphas in force. The new cells are a
part of what the second plan buys, and are charged to their own periods alone. It is taken where it
costs no more: whoever asks next about these periods uses the cells again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from qserver.planning.holdings import Holdings
from qserver.query.primitive import Primitive
from qserver.records.history import TableMeasurement


def extended(holdings: Holdings, rows: Iterable[Primitive]) -> Holdings | None:
    """The holdings with cells for every sealed period, bought with whatever else is.

    None where there are no tables, where they have cells for all that these rows are about, and
    where they would not have them then: for a retired period there are no new cells.
    """
    tables, asked = holdings.engine.tables, list(rows)
    if not tables.measured or all(map(holdings.covers, asked)):
        return None
    planned = holdings.extension()
    if not planned:
        return None
    engine = holdings.engine.tried()
    # Their ids are those of no measurement. Of their noise only the scale matters to a plan.
    engine.tables.extend(
        TableMeasurement(
            engine.n_measurements + i, p.partition, p.alpha_nano, p.step, (0,) * p.partition.n_cells
        )
        for i, p in enumerate(planned)
    )
    found = replace(holdings, engine=engine, extending=planned)
    return found if all(map(found.covers, asked)) else None
