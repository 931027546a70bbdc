"""The slot of a group of plans: counting and sampling take a whole multiple of it.

It follows from public facts alone: the plans, the settings and the declared capacity.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from fractions import Fraction

from qserver.query.class_grid import class_grid
from qserver.query.sealed_periods import periods_of
from qserver.records.dataset import DatasetMeta
from qserver.records.plan import Planned, PlannedRow
from qserver.storage.encoding.queued_requests import Reservation
from worker.constants import WORKER
from worker.private.record_tables import sums_fit
from worker.spending.two_stages import first_tables


def slots_of_job(reservation: Reservation, meta: DatasetMeta) -> Fraction:
    """The part of a group's slot for a charged plan's draws, in multiples of the setting."""
    planned = [*reservation.planned, *first_tables(reservation, meta.domain)]
    return slots_on(meta, planned, sampled=reservation.sampled is not None)


def slots_on(meta: DatasetMeta, planned: Sequence[Planned], *, sampled: bool = False) -> Fraction:
    """The slots that draws on a dataset need; see `slots_of`."""
    growth = meta.growth
    return slots_of(
        planned,
        sampled=sampled,
        capacity=meta.capacity if growth is None else growth.capacity,
        period_axis=None if growth is None else meta.period_axis,
        row_as_new=WORKER.gaussian_as_new if meta.law.is_additive else 1,
    )


def slot_of_group(parts: Iterable[Fraction], *, slot_s: float) -> float:
    """The slot in seconds of plans drawn one after another: the sum of their parts.

    One slot for all: between two draws nothing is seen, so only their sum has to be hidden.
    """
    return slot_s * math.ceil(sum(parts))


def slots_of(
    planned: Sequence[Planned],
    *,
    sampled: bool = False,
    capacity: int | None = None,
    period_axis: int | None = None,
    row_as_new: int = 1,
) -> Fraction:
    """The slots that a plan's counting and sampling need, in multiples of the setting.

    The time of a draw grows with the number of answers, and varies with their noise: one slot for
    every 32 new rows, or 1,536 new cells. So does the time of a scan, with the records and the
    attributes that it reads: it grows with the declared capacity, never with the records. All of it
    is public. A slot must hold the whole draw: one that ends near a slot's end would reveal its
    time.

    Args:
        planned: all rows and tables of the draw, with the tables of a sample.
        sampled: whether a sample of the records is drawn and looked at first.
        capacity: most records that the dataset may have, as its owner declared; None if nobody did:
            then a scan has any length, and whole slots of the plan alone must hold it.
        period_axis: the attribute of periods where data arrive over time. Then `capacity` is that
            of one period, and a scan reads the periods that the row or table is about.
        row_as_new: how many new rows of Laplace noise take as long to draw as a new row: more than
            one where it has Gaussian noise, whose tries are drawn and then kept or not.
    """
    draws = Fraction(sum(map(_as_new_rows, planned))) * row_as_new / WORKER.rows_per_slot
    more = WORKER.sample_slots if sampled else 0
    if capacity is None:
        return Fraction(math.ceil(draws) + more)
    reads = sum(reads_of(one) * _n_scanned(one, period_axis) for one in planned) + (
        WORKER.sample_reads if sampled else 0
    )
    return draws + scan_slots(reads, capacity=capacity) + more


def _n_scanned(planned: Planned, period_axis: int | None) -> int:
    """The number of stretches of the capacity that a scan reads; public."""
    if period_axis is None:
        return 1
    row = planned.row if isinstance(planned, PlannedRow) else planned.partition.inside
    return sum(map(len, periods_of(row, period_axis)))


def scan_slots(reads: int, *, capacity: int) -> Fraction:
    """The part of slots for scans of `capacity` records that read each `reads` times."""
    return Fraction(capacity * reads, WORKER.reads_per_slot)


def reads_of(planned: Planned) -> int:
    """How often the scan of a row or table reads or counts each record; public."""
    if not isinstance(planned, PlannedRow):
        return len(planned.partition.axes) + 1
    grid = class_grid(planned.row)
    if grid.n_cells <= WORKER.count_grid_cells:
        return len(grid.axes) + 1
    return sum(
        (len(term.factors) + 1) * (1 if sums_fit(term) else WORKER.large_sum_reads)
        for term in planned.row.terms
    )


def slot_end_s(begun_s: float, now_s: float, *, slot_s: float) -> float:
    """The moment to wait for: counting and sampling have then taken whole slots.

    Their time alone may depend on private data, so they alone are rounded up. To round up a longer
    time would be weaker: another part whose time varies, such as a disk, could bring the sum close
    to a slot's end, where a little more counting shows.

    Args:
        begun_s: when counting began.
        now_s: when it ended, by the same clock.
        slot_s: the plan's slot, in seconds; 0 for none.
    """
    if slot_s <= 0:
        return now_s
    return begun_s + max(1, math.ceil((now_s - begun_s) / slot_s)) * slot_s


def rest_until(end_s: float) -> None:
    """Return at this moment of `time.monotonic`; awake for the last moments, asleep before.

    To sleep until the end would tell: where others want the processor too, whoever counted longer
    has used more of it, and is woken later (the benchmark `answer_times`).
    """
    time.sleep(max(0.0, end_s - WORKER.awake_s - time.monotonic()))
    while time.monotonic() < end_s:
        pass


def _as_new_rows(planned: Planned) -> Fraction:
    """The number of new rows that take as long to draw as these answers."""
    if isinstance(planned, PlannedRow):
        return Fraction(WORKER.refined_as_new if planned.old_alpha_nano else 1)
    rows = WORKER.table_as_rows + Fraction(planned.partition.n_cells, WORKER.cells_as_row)
    refined = planned.old_alpha_nano > 0 or bool(planned.sources)
    return rows * (WORKER.refined_as_new if refined else 1)
