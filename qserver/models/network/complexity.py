"""The number of independent numbers in a directed model, or in released tables of counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from qserver.models.network.structure import Structure

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
