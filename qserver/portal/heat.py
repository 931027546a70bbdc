"""Where an attribute's loss lies, as the cells of a heat map."""

from __future__ import annotations

from collections.abc import Sequence
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
    names: Sequence[str], losses_nano: Sequence[int], *, top_nano: int
) -> tuple[HeatCell, ...]:
    """At most 60 cells for an attribute's values in order; neighbours are joined by their maximum.

    Args:
        names, losses_nano: per value.
        top_nano: what the deepest shade stands for.
    """
    size = -(-len(names) // MAX_CELLS)
    cells = []
    for start in range(0, len(names), size):
        group = names[start : start + size]
        loss = max(losses_nano[start : start + size])
        label = group[0] if len(group) == 1 else f"{group[0]} – {group[-1]}"
        cells.append(HeatCell(label, loss, shade(loss, top_nano)))
    return tuple(cells)


def shade(loss_nano: int, top_nano: int) -> int:
    """The shade of a loss: 0 for nothing, else 1 to 9 in equal parts of the top."""
    if loss_nano <= 0:
        return 0
    return min(N_SHADES, 1 + loss_nano * N_SHADES // max(top_nano, 1))
