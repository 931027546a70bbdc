"""A structure learnt greedily from correlations, with bounds on parents and on parameters.

Correlations must come from public data or from earlier releases. A structure learnt directly from
private records would reveal something about them that no ledger counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from qserver.errors import InputError
from qserver.models.network.structure import Structure, structure_of_edges

MAX_PARENTS = 16
Correlations = NDArray[np.float64]


def cramers_v(table: NDArray[np.float64]) -> float:
    """Cramer's V of a table of counts, in [0, 1]; of two binary variables |Pearson's r|.

    Args:
        table: counts or probabilities, shape (values, values); negative ones count as 0. The result
            is 0 if a side has fewer than two values.
    """
    counts = np.maximum(np.asarray(table, dtype=np.float64), 0.0)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    n, least = counts.sum(), min(counts.shape)
    if least < 2:
        return 0.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / n
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    return min(1.0, sqrt(chi_squared / (n * (least - 1))))


def correlations(
    names: Sequence[str], table: Callable[[str, str], NDArray[np.float64]]
) -> Correlations:
    """Cramer's V of every pair of variables, ones on the diagonal.

    Args:
        table: the joint counts or probabilities of two variables.
    """
    found = np.eye(len(names))
    for i, one in enumerate(names):
        for j in range(i):
            found[i, j] = found[j, i] = cramers_v(table(one, names[j]))
    return found


def score(child: int, parents: tuple[int, ...], corr: Correlations) -> float:
    """The score of a set of parents: correlated with the child, not with each other; 0 if empty.

    It is the sum of their correlations with the child, divided by the root of their number plus
    their correlations with each other, over all ordered pairs of different parents.

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
    max_complexity: float = inf,
    max_cells: float = inf,
) -> Structure:
    """The structure built by adding, one at a time, the arrow that raises the score sum most.

    Arrows that would pass a bound are skipped.

    Args:
        labels: the labels of each variable, by name.
        corr: correlations in [0, 1], symmetric, shape (variables, variables).
        max_parents: most parents of a variable, from 0 to 16.
        min_gain: an arrow must raise the sum by more than this, >= 0; 0 accepts every gain, even
            one that is due to the chance of a finite sample.
        max_complexity: most independent parameters; a structure without arrows may have more.
        max_cells: most cells of a variable with its parents; variables without parents are exempt.

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
    sizes = tuple(len(values) for values in labels.values())
    search = _ArrowSearch(corr, sizes, max_parents, max_complexity, max_cells)
    while search.add_best(min_gain):
        pass
    names = list(labels)
    edges = [(names[p], names[c]) for c, parents in enumerate(search.parents) for p in parents]
    return structure_of_edges(labels, edges)


def total_score(structure: Structure, corr: Correlations) -> float:
    """The sum of all variables' scores."""
    return sum(score(i, its, corr) for i, its in enumerate(structure.parents))


@dataclass
class _ArrowSearch:
    """The arrows so far, and the gain of each possible further arrow."""

    corr: Correlations
    sizes: tuple[int, ...]
    max_parents: int
    max_complexity: float
    max_cells: float
    parents: list[tuple[int, ...]] = field(init=False)
    # reaches[i, j]: there is a path from i to j, or i is j.
    reaches: NDArray[np.bool_] = field(init=False)
    # gains[child, parent]; -inf if the arrow is not allowed.
    gains: NDArray[np.float64] = field(init=False)
    # rows[child]: number of joint values of its parents.
    rows: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.corr)
        self.parents = [() for _ in range(n)]
        self.reaches = np.eye(n, dtype=bool)
        self.gains = np.full((n, n), -np.inf)
        self.rows = np.ones(n)
        for child in range(n):
            self._renew(child)

    def add_best(self, min_gain: float) -> bool:
        """Add the arrow of the greatest gain; returns whether one was above `min_gain`."""
        # An arrow that does not fit the bounds now never will.
        self.gains[~self._fitting()] = -np.inf
        child, parent = divmod(int(np.argmax(self.gains)), len(self.corr))
        if not self.gains[child, parent] > min_gain:
            return False
        self.parents[child] += (parent,)
        self.rows[child] *= self.sizes[parent]
        self.reaches |= np.outer(self.reaches[:, parent], self.reaches[child])
        # A descendant of a variable may not become its parent.
        self.gains[self.reaches] = -np.inf
        self._renew(child)
        return True

    def _fitting(self) -> NDArray[np.bool_]:
        """Which arrows fit the bounds, by child and parent."""
        sizes = np.array(self.sizes, dtype=np.float64)
        now = float((self.rows * (sizes - 1)).sum())
        more = np.outer(self.rows * (sizes - 1), sizes - 1)
        cells = np.outer(self.rows * sizes, sizes)
        fits: NDArray[np.bool_] = (now + more <= self.max_complexity) & (cells <= self.max_cells)
        return fits

    def _renew(self, child: int) -> None:
        """Update the gains of further parents of `child`."""
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
