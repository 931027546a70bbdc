"""The heat map of losses: which values of which attributes have lost most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

N_SHADES = 9
MAX_CELLS = 60


@dataclass(frozen=True)
class HeatCell:
    """One or more neighbouring values of an attribute.

    Args:
        label: the value, or the first and the last.
        loss_nano: the largest loss of a cell with one of them.
        shade: from 0 (nothing) to 9 (the top).
    """

    label: str
    loss_nano: int
    shade: int


def heat_cells(
    names: Sequence[str], losses_nano: Sequence[int], *, low_nano: int, top_nano: int
) -> tuple[HeatCell, ...]:
    """At most 60 cells for an attribute's values in order; neighbours are joined by their maximum.

    Args:
        names, losses_nano: per value.
        low_nano, top_nano: what the lightest and the deepest shade stand for.
    """
    size = -(-len(names) // MAX_CELLS)
    cells = []
    for start in range(0, len(names), size):
        group = names[start : start + size]
        loss = max(losses_nano[start : start + size])
        label = group[0] if len(group) == 1 else f"{group[0]} – {group[-1]}"
        cells.append(HeatCell(label, loss, shade(loss, low_nano, top_nano)))
    return tuple(cells)


def shade(loss_nano: int, low_nano: int, top_nano: int) -> int:
    """The shade of a loss: 0 for no loss, else 1 to 9 in equal parts from the least to the top.

    Relative to the spread it still tells losses apart when all of them are large.
    """
    if loss_nano <= 0:
        return 0
    if top_nano <= low_nano:
        return N_SHADES
    return min(N_SHADES, 1 + (loss_nano - low_nano) * N_SHADES // (top_nano - low_nano))


@dataclass(frozen=True)
class HeatRow:
    """An attribute's row of the heat map."""

    attribute: str
    cells: tuple[HeatCell, ...]
    loss_nano: int

    @property
    def worst(self) -> HeatCell:
        """The cell of the largest loss."""
        return max(self.cells, key=lambda cell: cell.loss_nano)


@dataclass(frozen=True)
class HeatMap:
    """The losses of all attributes on one scale, from the least to the largest."""

    rows: tuple[HeatRow, ...]
    low_nano: int
    top_nano: int

    @property
    def is_even(self) -> bool:
        """Whether no value lost more than another."""
        return self.low_nano == self.top_nano


def heat_map(losses: Mapping[str, Mapping[str, int]]) -> HeatMap:
    """The map of the losses of each value of each attribute, in nano-epsilon."""
    every = [loss for by_value in losses.values() for loss in by_value.values()]
    low, top = min(every, default=0), max(every, default=0)
    rows = (
        HeatRow(
            name,
            heat_cells(list(by_value), list(by_value.values()), low_nano=low, top_nano=top),
            max(by_value.values()),
        )
        for name, by_value in losses.items()
    )
    return HeatMap(tuple(rows), low, top)
