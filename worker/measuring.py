"""Draw the released answers of a plan: new rows, and refinements of live ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from qserver.errors import StaleVersionError
from qserver.history import Measurement
from qserver.plan import PlannedRow
from worker.mechanism import release, release_refined
from worker.randomness import Entropy


def live_rows(
    measurements: Sequence[Measurement], rows: Sequence[PlannedRow]
) -> dict[int, Measurement]:
    """The live measurements that planned rows refine, by id.

    Args:
        measurements: those of the newest history, in order of their ids.

    Raises:
        StaleVersionError: one is not what the plan was made on. Noise drawn from any but the live
            answer would cost more than the difference that is charged.
    """
    live = {i: measurements[i] for i in (row.refines for row in rows) if i is not None}
    for row in rows:
        if row.refines is not None and not row.refines_live(live[row.refines]):
            raise StaleVersionError("A row was refined since the plan was made.")
    return live


def draw(
    truth: Fraction | int,
    row: PlannedRow,
    *,
    live: Mapping[int, Measurement],
    entropy: Entropy,
) -> int:
    """Lattice index of a row's released answer: noise of its own, or refined from the live one.

    Args:
        truth: exact answer of the row, in records.
        live: what the rows of the plan refine, by id.

    Raises:
        MeasurementError: a value is out of range or no exact number.
    """
    if row.refines is None:
        return release(truth, step=row.step, alpha_nano=row.alpha_nano, entropy=entropy)
    return release_refined(
        truth,
        released_index=live[row.refines].index,
        step=row.step,
        old_alpha_nano=row.old_alpha_nano,
        new_alpha_nano=row.alpha_nano,
        entropy=entropy,
    )
