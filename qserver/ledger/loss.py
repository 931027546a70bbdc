"""The loss of each cell, or of each pair of cells, from one row's charge, as small tables.

Entries are whole numbers of units of 2^-12 nano-epsilon, each rounded up. So a sum over 4,096 rows
is less than one nano-epsilon too large, and exact for rows of zeros and ones. The loss of a pair
of cells (c, c') is a table on doubled axes: axis a of c is a, axis a of c' is a + the number of
attributes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qserver.ledger.constants import LIMITS
from qserver.ledger.loss_tables import LossTable, TableLayout, from_classes
from qserver.query.class_grid import AxisClasses, ClassGrid, IntegerGrid, class_grid
from qserver.query.linear_query import LinearQuery, Term
from qserver.records.privacy.noise_law import LAPLACE, NoiseLaw

UNITS_PER_NANO = 1 << 12


@dataclass(frozen=True, eq=False)
class Shape:
    """A non-negative function of the cell: numerators / denominator over the classes of some axes.

    Args:
        layout: axes and classes.
        numerators: of the layout's shape; int64, or Python integers where they are large.
        denominator: > 0.
        exact: whether this is the function itself; else it is an upper bound.
    """

    layout: TableLayout
    numerators: IntegerGrid
    denominator: int
    exact: bool = True

    @cached_property
    def top(self) -> int:
        """The greatest numerator."""
        return int(self.numerators.max())

    def loss(self, units: int) -> LossTable:
        """`units` times the function, each entry rounded up; entries are below 2^62 in size.

        Negative units make a refund. A refund is sound only if the shape is exact.
        """
        numerators: NDArray[Any] = self.numerators
        if abs(units) * self.top >= LIMITS.int64_safe:
            numerators = numerators.astype(object)
        values = np.asarray(-(-numerators * units // self.denominator))
        return LossTable(self.layout, values.astype(np.int64), self.exact)


@lru_cache(maxsize=1 << 14)
def cell_shapes(row: LinearQuery, law: NoiseLaw = LAPLACE) -> tuple[Shape, ...]:
    """abs(h_c)^p as a sum of shapes, p being the law's power.

    The sum is exact if the row's class grid has at most 2^18 cells, or, where p is 1, if no term is
    negative anywhere and each term's grid is that small. Otherwise it is one upper bound.
    """
    grid = class_grid(row)
    if grid.n_cells <= LIMITS.row_grid:
        return (_shape(grid, np.abs(grid.values(row)), row.denominator, law),)
    alone = [LinearQuery(row.sizes, (t,)) for t in row.terms]
    grids = [class_grid(query) for query in alone]
    adds_up = law.power == 1 and all(map(_is_non_negative, row.terms))
    if adds_up and all(g.n_cells <= LIMITS.row_grid for g in grids):
        parts = zip(grids, alone, strict=True)
        return tuple(_shape(g, g.values(query), query.denominator, law) for g, query in parts)
    ends = _ends(grid, row)
    return (_bound(ends, np.maximum(-ends.low, ends.high), row.denominator, law),)


@lru_cache(maxsize=1 << 12)
def pair_shapes(row: LinearQuery, law: NoiseLaw = LAPLACE) -> tuple[Shape, ...]:
    """abs(h_c - h_c')^p as a sum of shapes over pairs of cells, p being the law's power.

    The sum is exact if the row's class grid has at most 2^9 cells. Otherwise it is 2^(p-1) times
    abs(h_c - m)^p + abs(h_c' - m)^p, m being the middle of the row's range: never above that
    range to the power p.
    """
    grid = class_grid(row)
    if grid.n_cells**2 <= LIMITS.row_grid:
        # Cell values in 64 bits stay below 2^62, so differences fit.
        values = grid.values(row)
        pairs: NDArray[Any] = np.asarray(np.abs(np.subtract.outer(values, values)))
        layout = _layout(grid.axes)
        both = TableLayout(
            layout.axes + tuple(a + len(row.sizes) for a in layout.axes), layout.partitions * 2
        )
        return (Shape(both, law.of_moves(pairs), row.denominator**law.power),)
    here = _from_middle(grid, row, law)
    return here, on_second_cell(here, len(row.sizes))


@lru_cache(maxsize=1 << 12)
def pair_shapes_within(row: LinearQuery, law: NoiseLaw, axis: int) -> tuple[Shape, ...]:
    """As `pair_shapes`, over pairs of cells that have the same value of attribute `axis`.

    Both cells' value of it is on the one axis `axis`.
    """
    grid = class_grid(row)
    layout = _layout(grid.axes)
    if axis not in layout.by_axis:
        return pair_shapes(row, law)
    n_shared = layout.by_axis[axis].n
    if grid.n_cells**2 <= LIMITS.row_grid * n_shared:
        values, place = grid.values(row), layout.axes.index(axis)
        others = np.moveaxis(values, place, 0)
        # Axes of the one cell, then those of the other without the common one.
        shape = [n_shared if a == axis else 1 for a in layout.axes]
        theirs = others.reshape((*shape, *others.shape[1:]))
        ours = values.reshape(values.shape + (1,) * (values.ndim - 1))
        pairs: NDArray[Any] = np.asarray(np.abs(ours - theirs))
        rest = [i for i in range(len(layout.axes)) if i != place]
        both = TableLayout(
            layout.axes + tuple(layout.axes[i] + len(row.sizes) for i in rest),
            layout.partitions + tuple(layout.partitions[i] for i in rest),
        )
        return (Shape(both, law.of_moves(pairs), row.denominator**law.power),)
    here = _from_middle(grid, row, law)
    return here, on_second_cell(here, len(row.sizes), shared=axis)


def _from_middle(grid: ClassGrid, row: LinearQuery, law: NoiseLaw) -> Shape:
    """2^(p-1) abs(h_c - m)^p, m being the middle of the row's range; an upper bound."""
    ends = _ends(grid, row)
    doubled_middle = int(ends.low.min()) + int(ends.high.max())
    distances = np.maximum(doubled_middle - 2 * ends.low, 2 * ends.high - doubled_middle)
    found = _bound(ends, distances, 2 * row.denominator, law)
    return replace(found, numerators=found.numerators * law.spread(2))


def on_second_cell(shape: Shape, n_axes: int, *, shared: int | None = None) -> Shape:
    """The same function of the other cell of a pair.

    Args:
        shared: an axis that both cells have in common; None for none.
    """
    axes = [a if a == shared else a + n_axes for a in shape.layout.axes]
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    layout = TableLayout(
        tuple(axes[i] for i in order), tuple(shape.layout.partitions[i] for i in order)
    )
    return Shape(layout, shape.numerators.transpose(order), shape.denominator, shape.exact)


def _layout(axes: Iterable[AxisClasses]) -> TableLayout:
    kept = tuple(axes)
    return TableLayout(tuple(a.axis for a in kept), tuple(from_classes(a) for a in kept))


def _shape(grid: ClassGrid, values: NDArray[Any], denominator: int, law: NoiseLaw) -> Shape:
    numerators: NDArray[Any] = law.of_moves(np.asarray(values))
    if law.is_additive and numerators.min() == numerators.max():
        # A balanced row loses as much in every cell.
        return Shape(_layout(()), np.asarray(numerators.flat[0]), denominator**law.power)
    return Shape(_layout(grid.axes), numerators, denominator**law.power)


def _is_non_negative(term: Term) -> bool:
    return term.coefficient > 0 and all(min(f.weights.values) >= 0 for f in term.factors)


@dataclass(frozen=True, eq=False)
class _Ends:
    """Bounds `low` and `high` of a row's cell values times its denominator, Python integers."""

    layout: TableLayout
    low: NDArray[np.object_]
    high: NDArray[np.object_]


def _ends(grid: ClassGrid, row: LinearQuery) -> _Ends:
    """Bounds of the row over as many axes as fit, most used first; exact if all axes fit.

    Each term's product over the other axes lies between its least and greatest value. So the row
    lies between the sums of these lower ends and of these upper ends.
    """
    uses = {a.axis: sum(a.axis in t.by_axis for t in row.terms) for a in grid.axes}
    kept: list[AxisClasses] = []
    most = min(LIMITS.row_grid, LIMITS.row_work // len(row.terms))
    for classes in sorted(grid.axes, key=lambda a: (-uses[a.axis], a.n)):
        if prod(a.n for a in kept) * classes.n <= most:
            kept.append(classes)
    part = ClassGrid(tuple(sorted(kept, key=lambda a: a.axis)))
    inside = {a.axis for a in kept}
    low = np.zeros(part.shape, dtype=object)
    high = np.zeros(part.shape, dtype=object)
    for term in row.terms:
        coefficient = int(term.coefficient * row.denominator)
        values = part.term_values(term, coefficient, np.dtype(object))
        ends = [values * end for end in _outside(term, inside)]
        low, high = low + np.minimum(*ends), high + np.maximum(*ends)
    # Sums of arrays without axes are plain integers.
    return _Ends(_layout(part.axes), np.array(low, dtype=object), np.array(high, dtype=object))


def _bound(ends: _Ends, sizes: NDArray[Any], denominator: int, law: NoiseLaw) -> Shape:
    numerators = law.of_moves(np.array(sizes, dtype=object))
    return Shape(ends.layout, numerators, denominator**law.power, exact=False)


def _outside(term: Term, inside: Collection[int]) -> tuple[int, int]:
    """Least and greatest product of the term's weights on the axes that are not `inside`."""
    ends = (1, 1)
    for axis, weights in term.by_axis.items():
        if axis not in inside:
            corners = [e * w for e in ends for w in (min(weights.values), max(weights.values))]
            ends = (min(corners), max(corners))
    return ends
