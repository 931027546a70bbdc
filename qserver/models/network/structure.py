"""The public part of a Bayesian network: its variables, their labels and their parents.

A structure holds no number that was computed from data. A *family* is a variable with its parents,
the variable last. A *row* is one value of each parent.

`complexity` is the number of independent numbers in a directed model, or in released tables.

A structure learnt greedily from correlations, with bounds on parents and on parameters.

Correlations must come from public data or from earlier releases. A structure learnt directly from
private records would reveal something about them that no ledger counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from math import inf, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from qserver.errors import InputError, NetworkError

MAX_VARIABLES = 2048
MAX_FAMILY_CELLS = 1 << 20
MAX_CELLS_IN_ALL = 1 << 22
MAX_NAME = 64


@dataclass(frozen=True)
class Variable:
    """One variable of a network.

    Args:
        name: 1 to 64 printable characters.
        labels: its values' names, distinct, at least one.
        parents: names of its parents, in the order of the axes of its table; may be empty.

    Raises:
        NetworkError: a value is out of range.
    """

    name: str
    labels: tuple[str, ...]
    parents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= MAX_NAME or not self.name.isprintable():
            raise NetworkError("name", f"be 1 to {MAX_NAME} printable characters", self.name)
        if not self.labels or len(set(self.labels)) < len(self.labels):
            raise NetworkError(self.name, "have one or more labels, each named once")
        if len(set(self.parents)) < len(self.parents) or self.name in self.parents:
            raise NetworkError(self.name, "name each parent once, and not itself")

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.labels)


@dataclass(frozen=True)
class Structure:
    """A directed acyclic graph over named, finite variables.

    Raises:
        NetworkError: a name occurs twice, a parent is unknown, there is a cycle, or a bound on size
            is passed.
    """

    variables: tuple[Variable, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.variables) <= MAX_VARIABLES:
            raise NetworkError("variables", f"be 1 to {MAX_VARIABLES}", len(self.variables))
        for name in self.names:
            if self.names.count(name) > 1:
                raise NetworkError("variables", "have distinct names", name)
        for variable in self.variables:
            for parent in variable.parents:
                if parent not in self._index:
                    raise NetworkError(variable.name, "have known parents", parent)
        self._check_order()
        self._check_sizes()

    def _check_order(self) -> None:
        try:
            _ = self.order
        except CycleError as exc:
            around = " -> ".join(self.names[i] for i in reversed(exc.args[1][:8]))
            raise NetworkError("edges", "have no cycle", around) from exc

    def _check_sizes(self) -> None:
        cells = [prod(self.family_shape(i)) for i in range(len(self.variables))]
        for variable, n_cells in zip(self.variables, cells, strict=True):
            if n_cells > MAX_FAMILY_CELLS:
                raise NetworkError(variable.name, f"have <= {MAX_FAMILY_CELLS:,} cells", n_cells)
        if sum(cells) > MAX_CELLS_IN_ALL:
            raise NetworkError("variables", f"have <= {MAX_CELLS_IN_ALL:,} cells in all")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables' names, in order."""
        return tuple(v.name for v in self.variables)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of values per variable."""
        return tuple(v.size for v in self.variables)

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """Position of a variable; NetworkError if the name is unknown."""
        found = self._index.get(name)
        if found is None:
            raise NetworkError("variable", "be one of the network's", name)
        return found

    def label_index(self, i: int, label: str) -> int:
        """Position of a label of variable `i`; NetworkError if it has no such label."""
        variable = self.variables[i]
        if label not in variable.labels:
            raise NetworkError(variable.name, "have this label", label)
        return variable.labels.index(label)

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Positions of each variable's parents, in the order of its table's axes."""
        return tuple(tuple(self._index[p] for p in v.parents) for v in self.variables)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Positions of each variable's children, ascending."""
        found: list[list[int]] = [[] for _ in self.variables]
        for i, parents in enumerate(self.parents):
            for p in parents:
                found[p].append(i)
        return tuple(map(tuple, found))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Positions in an order with parents before their children."""
        graph = {i: self.parents[i] for i in range(len(self.variables))}
        return tuple(TopologicalSorter(graph).static_order())

    @cached_property
    def heights(self) -> tuple[int, ...]:
        """Length of the longest directed path from each variable down to a leaf."""
        found = [0] * len(self.variables)
        for i in reversed(self.order):
            found[i] = max((found[c] + 1 for c in self.children[i]), default=0)
        return tuple(found)

    def family(self, i: int) -> tuple[int, ...]:
        """Positions of the parents of variable `i`, followed by `i`."""
        return (*self.parents[i], i)

    def family_shape(self, i: int) -> tuple[int, ...]:
        """Number of values along the axes of the table of variable `i`."""
        return tuple(self.sizes[j] for j in self.family(i))

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Pairs (parent, child), by child."""
        return tuple((p, v.name) for v in self.variables for p in v.parents)

    def ancestors(self, seeds: Iterable[int]) -> frozenset[int]:
        """The positions `seeds` and those of all their ancestors."""
        found: set[int] = set()
        waiting = list(seeds)
        while waiting:
            i = waiting.pop()
            if i not in found:
                found.add(i)
                waiting.extend(self.parents[i])
        return frozenset(found)


def structure_of_edges(
    labels: Mapping[str, Sequence[str]], edges: Iterable[tuple[str, str]]
) -> Structure:
    """The structure over the variables of `labels` with these (parent, child) edges.

    Args:
        labels: the labels of each variable, by name; its order is the structure's.
        edges: (parent, child) pairs; the parents of a child keep this order.

    Raises:
        NetworkError: a name is unknown, an edge occurs twice, there is a cycle, or a bound on size
            is passed.
    """
    parents: dict[str, list[str]] = {name: [] for name in labels}
    for parent, child in edges:
        if child not in parents or parent not in parents:
            raise NetworkError(
                "edges", "join known variables", child if parent in parents else parent
            )
        parents[child].append(parent)
    return Structure(
        tuple(Variable(name, tuple(labels[name]), tuple(parents[name])) for name in labels)
    )


MAX_INTERACTIONS = 1 << 17


def complexity_of(parents: Mapping[int, tuple[int, ...]], sizes: Sequence[int]) -> int:
    """C = sum over i of |V(Pa_i)| (|V(X_i)| - 1), over the variables in `parents`.

    Args:
        parents: the parents of each variable, by position.
        sizes: number of values of each variable.

    References:
        Murakonda, Shokri and Theodorakopoulos, equation 2 and appendix D.
    """
    return sum(prod(sizes[p] for p in its) * (sizes[i] - 1) for i, its in parents.items())


def complexity(structure: Structure) -> int:
    """C of a structure: the model's independent parameters."""
    return complexity_of(dict(enumerate(structure.parents)), structure.sizes)


@dataclass(frozen=True)
class IndependentNumbers:
    """The number of independent numbers in tables, or an upper bound of it.

    Args:
        count: independent numbers in the tables that learning would release.
        is_exact: whether `count` is the exact number.
    """

    count: int
    is_exact: bool


def table_complexity(sizes: Sequence[int], scopes: Iterable[Sequence[int]]) -> IndependentNumbers:
    """Independent numbers in tables of counts over these scopes, without the total.

    A private learner releases noisy tables, not only conditional probabilities. Two parents that
    are independent in the model still occur in one table. So tables contain more numbers than the
    model, and wider tables contain more still. Each interaction within a table contributes the
    product of (size - 1) over its variables. Up to 131,072 interactions are counted exactly.

    Beyond that, each table counts its cells less those of its largest common part with an earlier
    table. This is a bound: a table has as many cells as numbers in its interactions, the empty one
    included, and the interactions in the common part were counted before.

    Args:
        sizes: number of values of each variable.
        scopes: positions of each table's variables.
    """
    tables = [frozenset(i for i in scope if sizes[i] > 1) for scope in scopes]
    if sum(2 ** len(table) for table in tables) > MAX_INTERACTIONS:
        return IndependentNumbers(_cells_not_shared(sizes, tables), is_exact=False)
    found = {part for table in tables for part in _parts(table)}
    count = sum(prod(sizes[i] - 1 for i in part) for part in found)
    return IndependentNumbers(count, is_exact=True)


def _cells_not_shared(sizes: Sequence[int], tables: Sequence[frozenset[int]]) -> int:
    count = 0
    for place, table in enumerate(tables):
        shared = {table & earlier for earlier in tables[:place]}
        # The total is always shared.
        most = max((prod(sizes[i] for i in part) for part in shared), default=1)
        count += prod(sizes[i] for i in table) - most
    return count


def _parts(table: frozenset[int]) -> Iterator[frozenset[int]]:
    """All non-empty sets of variables of a table."""
    for k in range(1, len(table) + 1):
        yield from map(frozenset, combinations(table, k))


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
