"""The slot of a plan: counting and sampling take a whole multiple of it.

It follows from public facts alone: the plan, the settings and the capacity that the owner declared.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fractions import Fraction

from qserver.query.grid import class_grid
from qserver.records.dataset import DatasetMeta
from qserver.records.plan import Planned, PlannedRow
from qserver.storage.encoding.requests import Reservation
from worker.constants import WORKER
from worker.private.tables import sums_fit
from worker.spending.two_stages import first_tables


def slot_of_job(reservation: Reservation, meta: DatasetMeta, *, slot_ms: int) -> float:
    """The slot in seconds of a charged plan."""
    planned = [*reservation.planned, *first_tables(reservation, meta.domain)]
    sampled = reservation.sampled is not None
    return slot_of(planned, slot_s=slot_ms / 1000, sampled=sampled, capacity=meta.capacity)


def slot_of(
    planned: Sequence[Planned], *, slot_s: float, sampled: bool = False, capacity: int | None = None
) -> float:
    """The plan's slot in seconds: counting and sampling take a whole multiple of it.

    The time of a draw grows with the number of answers, and varies with their noise. So the slot
    grows too: by one `slot_s` for every 64 new answers, or 21 refined ones. So does the time of a
    scan, with the records and the attributes that it reads: the slot grows with the declared
    capacity, never with the records. All of it is public. A slot must hold the whole draw: one that
    ends near a slot's end would reveal its time.

    Args:
        planned: all rows and tables of the draw, with the tables of a sample.
        slot_s: the slot of a few answers, in seconds.
        sampled: whether a sample of the records is drawn and looked at first.
        capacity: most records that the dataset may have, as its owner declared; None if nobody did:
            then the scans must fit with the draws.
    """
    n_slots = Fraction(sum(map(_as_new, planned)), WORKER.new_per_slot)
    if capacity is not None:
        reads = sum(map(reads_of, planned)) + (WORKER.sample_reads if sampled else 0)
        n_slots += scan_slots(reads, capacity=capacity)
    return slot_s * (math.ceil(n_slots) + (WORKER.sample_slots if sampled else 0))


def scan_slots(reads: int, *, capacity: int) -> Fraction:
    """The part of slots that scans of `capacity` records take which read each `reads` times."""
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
    """The moment until which to wait: counting and sampling have then taken whole slots.

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


def busy_until(end_s: float) -> None:
    """Return at this moment of `time.monotonic`; keep the processor busy until then.

    To sleep would tell: where others want the processor too, whoever counted longer has used more
    of it, and is woken later (docs/benchmarks.md, answer_times). Charges are few, since the budget
    ends, so this costs little.
    """
    while time.monotonic() < end_s:
        pass


def _as_new(planned: Planned) -> int:
    """Number of new answers that take as long to draw as these."""
    if isinstance(planned, PlannedRow):
        return WORKER.refined_as_new if planned.old_alpha_nano else 1
    refined = planned.old_alpha_nano > 0 or bool(planned.sources)
    return planned.partition.n_cells * (WORKER.refined_as_new if refined else 1)
