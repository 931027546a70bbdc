"""A level of unequal parts for questions that are asked at once about one attribute.

Ends of regular parts are blind to the questions. Of prefixes, for one, the last parts serve few,
so they may be short, and the first long. Here the ends are sought: single cells at one alpha and
the parts at another, in shares that are sought with them, answered by least squares. The price is
that at which

    sum_i (variance_i / half_width_i^2)^p,   p = log(1 / delta),

stays the same: about how the sum of normal tails moves, where it is delta. It only ranks
partitions; what is bought is fitted, scaled and certified like any other base. The search goes by
the questions alone, ends by a count of steps, and so finds the same for whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

import numpy as np

from qserver.errors import CapacityError
from qserver.inference.rows.classes import FloatArray
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
    """The chain with a level of parts sought for these questions; None where there is none.

    Args:
        asked: at once; they must all be about one attribute and no other.
        measured: partitions of an attribute that are measured. Only where they tell apart all that
            the questions do, or nothing, a level between is sought.
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
    """Values that no question tells apart, as one cell each; None where there are too many."""
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
        """The best partition found, as labels of values; None where cells alone are as good.

        The work is counted.
        """
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
        """The price and the ends where no single change pays, from these."""
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
        """Price of these parts with cells below, at the best share, in a unit of its own."""
        ends = np.array([0, *cuts, self.sums.shape[1] - 1])
        self.n_prices += 1
        self.work += PLANNER.uneven_work + PLANNER.uneven_entry_work * len(ends) * len(self.targets)
        inside = np.square(np.diff(self.sums[:, ends], axis=1))
        return min(self._at_share(s, inside, np.diff(ends)) for s in PLANNER.uneven_shares)

    def _at_share(self, share: float, inside: FloatArray, sizes: FloatArray) -> float:
        """Price with this share of it on cells, where cells and parts cost 1 together."""
        cell, part = share**2 / 2.0, (1.0 - share) ** 2 / 2.0
        # The mean of a part is told by its row and by its cells, weighed as if all parts were as
        # large as the largest, as the lattice pads them; what is left by its cells alone.
        weight = part / (part + cell / sizes.max())
        totals = weight**2 / part + (1.0 - weight) ** 2 * sizes / cell
        variances = self.squares / cell + inside @ (totals / sizes**2 - 1.0 / (sizes * cell))
        return self._norm(variances)

    def _norm(self, variances: FloatArray) -> float:
        """What to multiply all alphas by, about, so that such variances will do."""
        uses = variances / self.targets
        largest = float(uses.max())
        return float((largest * np.sum((uses / largest) ** self.power) ** (1 / self.power)) ** 0.5)


def _on_cells(axis: int, asked: PaidQuestion, first: Labels) -> FloatArray:
    """A question's weight on each cell, shape (cells,)."""
    total = np.zeros(len(first))
    for term in asked.row.terms:
        # Without the attribute a term weighs all of its values alike.
        weights = term.by_axis.get(axis)
        ones = 1.0 if weights is None else weights.dense[first]
        total += float(term.coefficient) * ones
    return total


def _changes(cuts: Cuts, n: int, step: int) -> list[Cuts]:
    """What differs in one end: moved by the step, left out, or new in the middle of a part."""
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
