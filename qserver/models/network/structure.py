"""The public part of a Bayesian network: its variables, their labels and their parents.

A structure holds no number that was computed from data. A *family* is a variable with its parents,
the variable last. A *row* is one value of each parent.

`complexity` is the number of independent numbers in a directed model, or in released tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from math import prod

from qserver.errors import NetworkError

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
        count: the number or the bound.
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
