"""Draw the released answers of a plan: rows and tables, new ones and refinements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from qserver.errors import MeasurementError
from qserver.plan import Planned, PlannedRow, PlannedTable
from worker.live import Live, Origin
from worker.mechanism import release, release_refined
from worker.randomness import Entropy
from worker.tables import Tables

_CELLS_PER_SLOT = 256


def draw_all(
    planned: Sequence[Planned], *, private: Tables, live: Live, entropy: Entropy
) -> list[tuple[int, ...]]:
    """Lattice indices of the released answers: per planned thing, one per row or cell.

    They are drawn in turn, each from what is in force once those before it are.

    Args:
        planned: rows, then tables, checked against `live`.
        private: the tables that are counted.
        live: what is in force; it takes in what is drawn.

    Raises:
        MeasurementError: a value is out of range or no exact number.
    """
    drawn = []
    for one in planned:
        if isinstance(one, PlannedRow):
            truth = private.answer(one.row)
            origin = live.origin_of_row(one)
            indices: tuple[int, ...] = (draw_row(truth, one, origin=origin, entropy=entropy),)
        else:
            counts = private.counts(one.partition)
            indices = draw_table(counts, one, live.origins_of_cells(one), entropy=entropy)
        live.take_in(one, indices)
        drawn.append(indices)
    return drawn


def draw_row(
    truth: Fraction | int,
    planned: PlannedRow | PlannedTable,
    *,
    origin: Origin | None,
    entropy: Entropy,
) -> int:
    """Lattice index of one released answer.

    Without an origin its noise is its own. An origin with more noise than planned is refined. One
    with no more noise than planned is taken over as it is: it costs nothing more, and its noise is
    less than is said of it.

    Args:
        truth: exact answer of the row or cell, in records.
        planned: what is measured: its lattice step and alpha.

    Raises:
        MeasurementError: a value is out of range or no exact number.
    """
    step, alpha = planned.step, planned.alpha_nano
    if origin is None:
        return release(truth, step=step, alpha_nano=alpha, entropy=entropy)
    if origin.alpha_nano >= alpha:
        return origin.index
    return release_refined(
        truth,
        released_index=origin.index,
        step=step,
        old_alpha_nano=origin.alpha_nano,
        new_alpha_nano=alpha,
        entropy=entropy,
    )


def draw_table(
    counts: Sequence[int],
    table: PlannedTable,
    origins: Mapping[int, Origin],
    *,
    entropy: Entropy,
) -> tuple[int, ...]:
    """Lattice indices of a table's released answers, one per cell.

    Args:
        counts: exact counts, one per cell of the partition, row-major.
        origins: what cells continue from, by cell.

    Raises:
        MeasurementError: the counts are not one per cell, or as for `draw_row`.
    """
    if len(counts) != table.partition.n_cells:
        raise MeasurementError
    return tuple(
        draw_row(count, table, origin=origins.get(cell), entropy=entropy)
        for cell, count in enumerate(counts)
    )


def slot_wait_s(elapsed_s: float, planned: Sequence[Planned], *, slot_s: float) -> float:
    """How long to wait before publishing, until the next multiple of the slot since the begin.

    What a draw takes spreads with the number of cells drawn, so the slot of a plan grows with it:
    one slot for every 256 cells begun. That number is public.

    Args:
        elapsed_s: seconds since the job was begun.
        slot_s: the slot of a few answers, in seconds; 0 for none.
    """
    if slot_s <= 0:
        return 0.0
    n_cells = sum(1 if isinstance(p, PlannedRow) else p.partition.n_cells for p in planned)
    slot_s *= math.ceil(n_cells / _CELLS_PER_SLOT)
    return max(0.0, math.ceil(elapsed_s / slot_s) * slot_s - elapsed_s)
