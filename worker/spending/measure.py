"""Draw the released answers of a plan: rows and tables, new ones and refinements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from qserver.errors import MeasurementError
from qserver.records.plan import Planned, PlannedRow, PlannedTable
from worker.constants import WORKER
from worker.noise.mechanism import release, release_refined
from worker.noise.randomness import Entropy
from worker.private.tables import Tables
from worker.spending.live import Live, Origin


class IndexSource(Protocol):
    """Where lattice indices of released answers come from."""

    def of_row(self, row: PlannedRow, origin: Origin | None) -> int:
        """That of a row, given what it continues from."""
        ...

    def of_table(self, table: PlannedTable, origins: Mapping[int, Origin]) -> tuple[int, ...]:
        """Those of a table, one per cell, given what cells continue from."""
        ...


def draw_all(
    planned: Sequence[Planned], *, private: Tables, live: Live, entropy: Entropy
) -> list[tuple[int, ...]]:
    """Lattice indices of the released answers: per planned thing, one per row or cell.

    Args:
        planned: rows, then tables, checked against `live`.
        private: the tables that are counted.
        live: what is in force; it takes in what is drawn.

    Raises:
        MeasurementError: a value is out of range or no exact number.
    """
    return in_turn(planned, source=_Drawing(private, entropy), live=live)


def in_turn(
    planned: Sequence[Planned], *, source: IndexSource, live: Live
) -> list[tuple[int, ...]]:
    """Indices of every planned thing, each given what is in force once those before it are.

    Args:
        live: what is in force; it takes in what comes from the source.

    Raises:
        MeasurementError: something is not in force with as little noise as is paid for.
    """
    found = []
    for one in planned:
        if isinstance(one, PlannedRow):
            indices: tuple[int, ...] = (source.of_row(one, live.origin_of_row(one)),)
        else:
            indices = source.of_table(one, live.origins_of_cells(one))
        live.take_in(one, indices)
        found.append(indices)
    return found


@dataclass(frozen=True, repr=False)
class _Drawing:
    """Counts with noise."""

    private: Tables
    entropy: Entropy

    def of_row(self, row: PlannedRow, origin: Origin | None) -> int:
        return draw_row(self.private.answer(row.row), row, origin=origin, entropy=self.entropy)

    def of_table(self, table: PlannedTable, origins: Mapping[int, Origin]) -> tuple[int, ...]:
        counts = self.private.counts(table.partition)
        return draw_table(counts, table, origins, entropy=self.entropy)


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


def slot_of(planned: Sequence[Planned], *, slot_s: float, sampled: bool = False) -> float:
    """Seconds that counting and sampling for a plan are rounded up to a multiple of.

    What a draw takes grows with the answers drawn, and spreads with their noise, so a plan's slot
    grows with them: one slot for every 64 new answers begun, or 21 refined ones. Both numbers are
    public. A slot must hold the whole draw: a draw that ends near a slot's end would tell.

    Args:
        planned: all that is drawn, the tables of a sample included.
        slot_s: the slot of a few answers, in seconds.
        sampled: whether a sample of the records is taken first, and looked at.
    """
    n_slots = math.ceil(sum(map(_as_new, planned)) / WORKER.new_per_slot)
    return slot_s * (n_slots + (WORKER.sample_slots if sampled else 0))


def slot_wait_s(elapsed_s: float, *, slot_s: float) -> float:
    """How long to wait until counting and sampling have taken a whole number of slots.

    Args:
        elapsed_s: seconds since counting was begun.
        slot_s: the plan's slot, in seconds; 0 for none.
    """
    if slot_s <= 0:
        return 0.0
    n_slots = max(1, math.ceil(elapsed_s / slot_s))
    return max(0.0, n_slots * slot_s - elapsed_s)


def _as_new(planned: Planned) -> int:
    """New answers that take as long to draw as these."""
    if isinstance(planned, PlannedRow):
        return WORKER.refined_as_new if planned.old_alpha_nano else 1
    refined = planned.old_alpha_nano > 0 or bool(planned.sources)
    return planned.partition.n_cells * (WORKER.refined_as_new if refined else 1)
