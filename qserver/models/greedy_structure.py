"""A structure learnt greedily from correlations, with a bound on the parents of a variable.

Correlations come from public data, or from tables that were released already: what is learnt from
private records outside the ledger would leak by its arrows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from qserver.errors import InputError
from qserver.models.structure import Structure, structure_of_edges

MAX_PARENTS = 16
Correlations = NDArray[np.float64]


def cramers_v(table: NDArray[np.float64]) -> float:
    """Cramer's V of a table of counts, in [0, 1]; of two binary variables |Pearson's r|.

    Args:
        table: counts, shape (values, values); noisy ones are cut off at 0. Without two values on
            both sides there is nothing to correlate: 0.
    """
    counts = np.maximum(np.asarray(table, dtype=np.float64), 0.0)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    n, least = counts.sum(), min(counts.shape)
    if least < 2:
        return 0.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / n
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    return min(1.0, sqrt(chi_squared / (n * (least - 1))))


def correlations(records: NDArray[np.integer], sizes: tuple[int, ...]) -> Correlations:
    """Cramer's V of every pair of variables, ones on the diagonal.

    Args:
        records: value indexes, shape (records, variables), of public data.
        sizes: how many values each variable has.
    """
    found = np.eye(len(sizes))
    for i in range(len(sizes)):
        for j in range(i):
            cells = records[:, i].astype(np.int64) * sizes[j] + records[:, j]
            table = np.bincount(cells, minlength=sizes[i] * sizes[j]).reshape(sizes[i], sizes[j])
            found[i, j] = found[j, i] = cramers_v(table.astype(np.float64))
    return found


def score(child: int, parents: tuple[int, ...], corr: Correlations) -> float:
    """How well parents tell of a child without telling of one another; 0 for no parents.

    The sum of their correlations with the child, over the root of their number plus their
    correlations with one another, every ordered pair of different parents counted.

    References:
        Murakonda et al., equation 3, after Hall (1999).
    """
    if not parents:
        return 0.0
    chosen = list(parents)
    among = corr[np.ix_(chosen, chosen)].sum() - corr[chosen, chosen].sum()
    return float(corr[child, chosen].sum() / sqrt(len(chosen) + among))


def greedy_structure(
    labels: Mapping[str, Sequence[str]],
    corr: Correlations,
    *,
    max_parents: int,
    min_gain: float = 0.0,
) -> Structure:
    """The structure that adds, one at a time, the arrow that raises the sum of scores most.

    Args:
        labels: the labels of each variable, by name.
        corr: correlations in [0, 1], symmetric, shape (variables, variables).
        max_parents: most parents of a variable, from 0 to 16.
        min_gain: an arrow must raise the sum by more than this, >= 0; 0 takes every gain, also
            those that are the chance of a finite sample.

    Raises:
        InputError: a value is out of range, or the structure has too many cells.

    References:
        Murakonda et al., section 2.1.
    """
    n = len(labels)
    if corr.shape != (n, n) or not np.allclose(corr, corr.T) or corr.min() < 0:
        raise InputError("corr", "be symmetric, >= 0, with a row for each variable")
    if not 0 <= max_parents <= MAX_PARENTS:
        raise InputError("max_parents", f"be from 0 to {MAX_PARENTS}", max_parents)
    if not min_gain >= 0:
        raise InputError("min_gain", "be >= 0", min_gain)
    search = _Search(corr, max_parents)
    while search.add_best(min_gain):
        pass
    names = list(labels)
    edges = [(names[p], names[c]) for c, parents in enumerate(search.parents) for p in parents]
    return structure_of_edges(labels, edges)


@dataclass
class _Search:
    """The arrows so far, and what each that may still come would gain."""

    corr: Correlations
    max_parents: int
    parents: list[tuple[int, ...]] = field(init=False)
    # reaches[i, j]: there is a path from i to j, or i is j.
    reaches: NDArray[np.bool_] = field(init=False)
    # gains[child, parent]; -inf where the arrow may not come.
    gains: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.corr)
        self.parents = [() for _ in range(n)]
        self.reaches = np.eye(n, dtype=bool)
        self.gains = np.full((n, n), -np.inf)
        for child in range(n):
            self._renew(child)

    def add_best(self, min_gain: float) -> bool:
        """Add the arrow of the greatest gain; whether there was one above `min_gain`."""
        child, parent = divmod(int(np.argmax(self.gains)), len(self.corr))
        if not self.gains[child, parent] > min_gain:
            return False
        self.parents[child] += (parent,)
        self.reaches |= np.outer(self.reaches[:, parent], self.reaches[child])
        # Whom a variable reaches may not become its parent.
        self.gains[self.reaches] = -np.inf
        self._renew(child)
        return True

    def _renew(self, child: int) -> None:
        """Gains of further parents of `child`."""
        mine = self.parents[child]
        self.gains[child] = -np.inf
        if len(mine) >= self.max_parents:
            return
        chosen = list(mine)
        among = self.corr[np.ix_(chosen, chosen)].sum() - self.corr[chosen, chosen].sum()
        # `score` of `mine` and each further parent, all at once.
        among_all = len(mine) + 1 + among + 2 * self.corr[chosen].sum(axis=0)
        with_all = (self.corr[child, chosen].sum() + self.corr[child]) / np.sqrt(among_all)
        self.gains[child] = with_all - score(child, mine, self.corr)
        self.gains[child, self.reaches[child]] = -np.inf
        self.gains[child, chosen] = -np.inf
