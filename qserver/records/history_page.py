"""A page of what was released of a dataset, as the server tells it. Frozen and public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class HistoryRow:
    """A released row: its terms, its noisy answer, its noise scale."""

    id: int
    terms: list[list[object]]
    key: str
    value: float
    scale: float
    alpha_nano: int
    step: str


@dataclass(frozen=True)
class HistoryTable:
    """A released table: every cell of a product of partitions, at one noise scale.

    Args:
        axes: [axis, stops, part of each run] per attribute that it splits.
        values: noisy answers, cells in row-major order; None if only its facts are listed.
    """

    id: int
    axes: list[list[Any]]
    n_cells: int
    key: str
    scale: float
    alpha_nano: int
    step: str
    values: tuple[float, ...] | None


@dataclass(frozen=True)
class HistoryPage:
    """Rows and tables after a given id, in order; `next_after` is None on the last page."""

    rows: tuple[HistoryRow | HistoryTable, ...]
    version: int
    next_after: int | None
