"""Cells of measured tables as rows, so that they can disagree with each other and with rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from qserver.query.linear import LinearQuery
from qserver.records.history import AnyMeasurement, Measurement

MOST_CELLS = 1_000
"""Most rows and cells together whose disagreements are sought."""


def cells_as_rows(
    measurements: Sequence[AnyMeasurement], used: Collection[int]
) -> list[Measurement] | None:
    """The rows, and the cells of tables, that disagreements are sought among.

    Of the same row measured twice, as a cell or by itself, only the one with the least noise is
    taken: the other may be the same noise with more added, and then says nothing more.

    Args:
        measurements: live rows and tables by id.
        used: ids of those that must be among them.

    Returns:
        The used ones, and others in the order of their ids as long as there is room; numbered
        anew. None if the used ones alone are too many.
    """
    chosen = [measurements[i] for i in sorted(used)]
    n_cells = sum(map(_size, chosen))
    if n_cells > MOST_CELLS:
        return None
    for one in measurements:
        if one.id not in used and n_cells + _size(one) <= MOST_CELLS:
            n_cells += _size(one)
            chosen.append(one)
    best: dict[LinearQuery, Measurement] = {}
    for row in _rows(chosen):
        known = best.get(row.row)
        if known is None or row.scale < known.scale:
            best[row.row] = row
    return [replace(row, id=number) for number, row in enumerate(best.values())]


def _size(measurement: AnyMeasurement) -> int:
    return 1 if isinstance(measurement, Measurement) else len(measurement.indices)


def _rows(measurements: Iterable[AnyMeasurement]) -> Iterator[Measurement]:
    for one in measurements:
        if isinstance(one, Measurement):
            yield one
            continue
        for cell, index in enumerate(one.indices):
            yield Measurement(cell, one.partition.row(cell), "", one.alpha_nano, one.step, index)
