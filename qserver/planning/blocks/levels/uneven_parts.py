"""A level of unequal parts for questions that are asked at once about one attribute.

Regular parts end at the same places whatever is asked. But of prefixes, for example, the last parts
serve few, so they may be short and the first ones long. Here the ends are searched for: single
cells get one alpha and the parts another, in shares that are searched for as well, and questions
are answered by least squares. The price is the one at which

    sum_i (variance_i / half_width_i^2)^p,   p = log(1 / delta),

stays the same: about how the sum of normal tails changes near delta. It only ranks partitions; the
base that is bought is fitted, scaled and certified like any other. The search depends on the
questions alone and ends after a number of steps, so every process finds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

import numpy as np

from qserver.errors import CapacityError
from qserver.inference.arrays import FloatArray
from qserver.inference.tables.blocks.chain import Chain
from qserver.inference.tables.blocks.nested_chains import (
    Labels,
    chain_through,
    firsts,
    labels_of,
    n_parts,
    nested_levels,
)
from qserver.planning.constants import PLANNER
from qserver.planning.effort import Effort
from qserver.query.grid import axis_classes
from qserver.records.paid_question import PaidQuestion

Cuts = tuple[int, ...]


def uneven_chain(
    asked: Sequence[PaidQuestion],
    measured: Callable[[int], Sequence[Labels]],
    effort: Effort,
) -> Chain | None:
    """The chain with a level of parts fitted to these questions, or None.

    Args:
        asked: questions asked at once; all must be about the same single attribute.
        measured: the measured partitions of an attribute. A level between is only searched for if
            each of them tells apart everything that the questions do, or nothing.
        effort: counts the work.
    """
    axes = {a for q in asked for t in q.row.terms for a in t.by_axis}
    if len(axes) != 1:
        return None
    (axis,) = axes
    cells = _cells(axis, asked)
    if cells is None:
        return None
    n, size = n_parts(cells), len(cells)
    known = {x.tobytes() for x in (cells, np.zeros(size, np.intp), np.arange(size, dtype=np.intp))}
    if n < PLANNER.uneven_least_cells or n * len(asked) > PLANNER.uneven_entries:
        return None
    if any(labels.tobytes() not in known for labels in measured(axis)):
        return None
    parts = _Search.of(axis, asked, cells).best(effort)
    return None if parts is None else chain_through(axis, nested_levels(size, [cells, parts]))


def _cells(axis: int, asked: Sequence[PaidQuestion]) -> Labels | None:
    """Cells of values that no question tells apart; None if there are too many values."""
    terms = [t.by_axis for q in asked for t in q.row.terms]
    vectors = list(dict.fromkeys(t[axis] for t in terms if axis in t))
    if vectors[0].size > PLANNER.most_learnt_values:
        return None
    try:
        return labels_of(axis_classes(axis, vectors).dense)
    except CapacityError:
        return None


@dataclass
class _Search:
    """The search for the ends of parts.

    Args:
        sums: running sums of each question's weights over cells, shape (questions, cells + 1).
        squares: sums of their squares, shape (questions,).
        targets: half-widths squared, shape (questions,).
        power: p.
    """

    cells: Labels
    sums: FloatArray
    squares: FloatArray
    targets: FloatArray
    power: float
    n_prices: int = 0
    work: float = 0.0

    @classmethod
    def of(cls, axis: int, asked: Sequence[PaidQuestion], cells: Labels) -> _Search:
        """The search over cells of these values."""
        first = firsts(cells)
        weights = np.array([_on_cells(axis, q, first) for q in asked])
        sums = np.concatenate([np.zeros((len(asked), 1)), np.cumsum(weights, axis=1)], axis=1)
        targets = np.square(np.array([q.half_width for q in asked], dtype=np.float64))
        power = max(PLANNER.uneven_least_power, -log(min(1.0 - q.confidence for q in asked)))
        return cls(cells, sums, np.square(weights).sum(axis=1), targets, power)

    def best(self, effort: Effort) -> Labels | None:
        """The best partition found, as labels of values; None if cells alone are as good."""
        n = self.sums.shape[1] - 1
        numbers = [k for k in PLANNER.uneven_starts if 2 * k <= n]
        starts = [tuple(n * i // k for i in range(1, k)) for k in numbers]
        alone = self._norm(2.0 * self.squares)
        found = [self._descent(s) for s in starts if self._price(s) < alone]
        effort.add(self.work)
        if not found:
            return None
        _, cuts = min(found)
        ends = np.array(cuts, dtype=np.intp)
        return labels_of(np.searchsorted(ends, self.cells, side="right"))

    def _descent(self, cuts: Cuts) -> tuple[float, Cuts]:
        """The price and the ends, from these on, that no single change improves."""
        n = self.sums.shape[1] - 1
        step, best = max(1, n // PLANNER.uneven_first_step), (self._price(cuts), cuts)
        while self.n_prices < PLANNER.uneven_prices:
            found = min(((self._price(c), c) for c in _changes(best[1], n, step)), default=best)
            if found[0] < best[0] * (1.0 - PLANNER.uneven_better):
                best = found
            elif step == 1:
                break
            else:
                step //= 2
        return best

    def _price(self, cuts: Cuts) -> float:
        """Price of these parts with cells below, at the best share; for comparisons only."""
        ends = np.array([0, *cuts, self.sums.shape[1] - 1])
        self.n_prices += 1
        self.work += PLANNER.uneven_work + PLANNER.uneven_entry_work * len(ends) * len(self.targets)
        inside = np.square(np.diff(self.sums[:, ends], axis=1))
        return min(self._at_share(s, inside, np.diff(ends)) for s in PLANNER.uneven_shares)

    def _at_share(self, share: float, inside: FloatArray, sizes: FloatArray) -> float:
        """Price with this share of it on cells, where cells and parts cost 1 together."""
        cell, part = share**2 / 2.0, (1.0 - share) ** 2 / 2.0
        # A part's row and its cells tell the mean of the part. They are weighed as if all parts had
        # the largest size, since the lattice pads them. The rest is told by the cells alone.
        weight = part / (part + cell / sizes.max())
        totals = weight**2 / part + (1.0 - weight) ** 2 * sizes / cell
        variances = self.squares / cell + inside @ (totals / sizes**2 - 1.0 / (sizes * cell))
        return self._norm(variances)

    def _norm(self, variances: FloatArray) -> float:
        """About the factor on all alphas with which these variances meet the targets."""
        uses = variances / self.targets
        largest = float(uses.max())
        return float((largest * np.sum((uses / largest) ** self.power) ** (1 / self.power)) ** 0.5)


def _on_cells(axis: int, asked: PaidQuestion, first: Labels) -> FloatArray:
    """A question's weight on each cell, shape (cells,)."""
    total = np.zeros(len(first))
    for term in asked.row.terms:
        # A term without the attribute weighs all of its values equally.
        weights = term.by_axis.get(axis)
        ones = 1.0 if weights is None else weights.dense[first]
        total += float(term.coefficient) * ones
    return total


def _changes(cuts: Cuts, n: int, step: int) -> list[Cuts]:
    """Cuts that differ in one end: moved by the step, left out, or new in the middle of a part."""
    found = list[Cuts]()
    for i, cut in enumerate(cuts):
        before, after = cuts[:i], cuts[i + 1 :]
        found += [(*before, cut - step, *after), (*before, cut + step, *after)]
        if len(cuts) > 1:
            found.append((*before, *after))
    ends = (0, *cuts, n)
    for low, high in pairwise(ends):
        found.append(tuple(sorted((*cuts, (low + high) // 2))))
    return [c for c in found if all(b - a >= 2 for a, b in pairwise((0, *c, n)))]
