"""Search for a direction that moves a claimed query and that the charges hardly see.

Any direction gives a bound that holds, so the search may end anywhere. It looks at a bounded number
of cells: all kinds of cells where those are few, and otherwise cells that lose little, found by
changing one attribute after another, with their neighbours. On these cells the best direction is
that of a linear program, whose dual is solved: the greatest t for which rows times factors of at
most their alpha add up to t times the query. It depends on charges alone, by counted work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm

import numpy as np

from qserver.ledger.claims.cells import Cells, Floats, ToldApart
from qserver.ledger.claims.limits import (
    MOST_ALL,
    MOST_CELLS,
    MOST_DENOMINATOR,
    MOST_ENTRIES,
    MOST_LOOKS,
    MOST_PAIRS,
    MOST_PROGRAMS,
    MOST_SCALE,
    MOST_STARTS,
    MOST_STEPS,
    TINY,
)
from qserver.query.linear import LinearQuery


@dataclass(frozen=True)
class Direction:
    """A whole vector over cells: these weights on these cells, 0 on all others."""

    cells: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]

    @property
    def is_balanced(self) -> bool:
        """Whether it keeps the number of records."""
        return not sum(self.weights)

    def moves(self, query: LinearQuery) -> Fraction:
        """What a step along it changes the query by."""
        pairs = zip(self.cells, self.weights, strict=True)
        return sum((w * query.value_at(c) for c, w in pairs), Fraction(0))


class Search:
    """The search for one claimed query; its cells are looked for once.

    Args:
        found: the cells as far as they are told apart.
        query: the claimed query.
    """

    def __init__(self, found: ToldApart, query: LinearQuery) -> None:
        self._found, self._query = found, query
        n_axes = sum(len(values) > 1 for values in found.values)
        self._most_around = max(1, MOST_CELLS // max(1, n_axes))

    @cached_property
    def _cells(self) -> Cells:
        """All kinds of cells, or cells that lose little and their neighbours."""
        found = self._found
        if found.n_cells <= max(MOST_CELLS, min(MOST_ENTRIES // found.n_rows, MOST_ALL)):
            return found.all_cells()
        starts = list(_starts(found, self._query))
        n_steps = max(1, MOST_LOOKS // (found.n_rows * max(1, len(starts))))
        ends = [_descended(found, start, n_steps) for start in starts]
        return self._with_neighbours(np.array(ends).reshape(-1, len(self._query.sizes)))

    def _with_neighbours(self, cells: Cells) -> Cells:
        """These cells, and then those around them, as many as there is room for."""
        near = [self._found.around(cell, self._most_around) for cell in cells]
        every = np.concatenate([cells, *near])
        _, first = np.unique(every, axis=0, return_index=True)
        return every[np.sort(first)[:MOST_CELLS]]

    def single_cells(self) -> list[Direction]:
        """Directions of one cell each: those that lose least among the cells looked at."""
        asked = np.abs(self._found.asked(self._cells))
        used = np.flatnonzero(asked)
        if not len(used):
            return []
        losses = self._found.losses(self._cells)[used] / asked[used]
        order = used[np.argsort(losses, kind="stable")]
        return [Direction((_cell(self._cells[i]),), (1,)) for i in order[:2]]

    def combined_cells(self, *, balanced: bool) -> Iterator[Direction]:
        """Directions of several cells: pairs, and those of linear programs, each on the last one's.

        Args:
            balanced: whether the number of records must stay.
        """
        cells = self._cells
        if balanced:
            yield from _pairs(cells, self._found.asked(cells))
        for _ in range(MOST_PROGRAMS):
            shifts, asked = self._found.shifts(cells), self._found.asked(cells)
            if shifts.size > MOST_ENTRIES or not np.any(asked):
                return
            vector = _program(shifts, asked, balanced=balanced)
            direction = None if vector is None else _whole(cells, vector)
            if direction is None:
                return
            yield direction
            if len(cells) == self._found.n_cells:
                return
            cells = self._with_neighbours(np.array(direction.cells))


def _starts(found: ToldApart, query: LinearQuery) -> Iterator[Cells]:
    """Cells that the query weighs: of its largest terms, the value of the largest weight each."""
    terms = sorted(query.terms, key=lambda t: -abs(t.coefficient))
    for term in terms[:MOST_STARTS]:
        cell = np.array([values[0] for values in found.values])
        for factor in term.factors:
            values = found.values[factor.axis]
            cell[factor.axis] = values[np.argmax(np.abs(factor.weights.dense[values]))]
        if found.asked(cell[None, :])[0]:
            yield cell


def _descended(found: ToldApart, cell: Cells, n_steps: int) -> Cells:
    """A cell that loses less per unit of the query, by changes of one attribute at a time."""
    for _ in range(min(n_steps, 2 * len(cell))):
        near = found.around(cell, MOST_CELLS)
        asked = np.abs(found.asked(near))
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = np.where(asked > 0, found.losses(near) / asked, np.inf)
        best = int(np.argmin(losses))
        if not losses[best] < losses[0]:
            return cell
        cell = near[best]
    return cell


def _pairs(cells: Cells, asked: Floats) -> Iterator[Direction]:
    """From the first cell to each that the query weighs otherwise, and from the least weighed."""
    for one in dict.fromkeys((0, int(np.argmin(asked)))):
        for other in np.flatnonzero(asked != asked[one])[:MOST_PAIRS].tolist():
            yield Direction((_cell(cells[other]), _cell(cells[one])), (1, -1))


def _program(shifts: Floats, asked: Floats, *, balanced: bool) -> Floats | None:
    """The vector of least loss that moves the query by 1; None if none was found."""
    from scipy.optimize import linprog  # loads long, and not at a start

    n_rows, n_cells = shifts.shape
    scale = float(np.abs(shifts).max(initial=0.0)) or 1.0
    kept = np.concatenate(
        [shifts.T / scale, np.ones((n_cells, 1)), -asked[:, None]], axis=1
    )  # fmt: skip
    free = (None, None) if balanced else (0.0, 0.0)
    found = linprog(
        np.array([0.0] * (n_rows + 1) + [-1.0]),
        A_eq=kept,
        b_eq=np.zeros(n_cells),
        bounds=[(-1.0, 1.0)] * n_rows + [free, (None, None)],
        method="highs-ds",
        options={"maxiter": MOST_STEPS},
    )
    return np.asarray(found.eqlin.marginals) if found.status == 0 else None


def _whole(cells: Cells, vector: Floats) -> Direction | None:
    """The vector as whole weights without a common divisor; None if it is not nearly such."""
    size = float(np.abs(vector).max(initial=0.0))
    if not size or not np.isfinite(size):
        return None
    at = np.flatnonzero(np.abs(vector) > TINY * size)
    near = [Fraction(float(vector[i] / size)).limit_denominator(MOST_DENOMINATOR) for i in at]
    scale = lcm(*(f.denominator for f in near))
    if scale > MOST_SCALE:
        return None
    weights = [int(f * scale) for f in near]
    common = gcd(*weights) or 1
    return Direction(
        tuple(_cell(cells[i]) for i in at), tuple(weight // common for weight in weights)
    )


def _cell(values: Cells) -> tuple[int, ...]:
    return tuple(values.tolist())
