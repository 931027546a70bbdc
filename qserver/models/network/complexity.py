"""How many independent numbers a directed model tells, by itself or by tables of counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from qserver.models.network.structure import Structure

MAX_INTERACTIONS = 1 << 17


def complexity_of(parents: Mapping[int, tuple[int, ...]], sizes: Sequence[int]) -> int:
    """C = sum over i of |V(Pa_i)| (|V(X_i)| - 1), over the variables that `parents` names.

    Args:
        parents: the parents of each variable, by position.
        sizes: how many values each variable has.

    References:
        Murakonda, Shokri and Theodorakopoulos, equation 2 and appendix D.
    """
    return sum(prod(sizes[p] for p in its) * (sizes[i] - 1) for i, its in parents.items())


def complexity(structure: Structure) -> int:
    """C of a structure: the model's independent parameters."""
    return complexity_of(dict(enumerate(structure.parents)), structure.sizes)


@dataclass(frozen=True)
class IndependentNumbers:
    """How many independent numbers tables tell: `count`, or no more than that.

    Args:
        count: the number, or a bound above it.
        is_exact: whether it is the number itself.
    """

    count: int
    is_exact: bool


def table_complexity(sizes: Sequence[int], scopes: Iterable[Sequence[int]]) -> IndependentNumbers:
    """Independent numbers in tables of counts over these scopes, besides the total.

    A private learner releases noisy tables, not only conditional probabilities. Two parents that a
    model holds independent still meet in a table, so tables tell more than the model; wider ones
    tell more still. Together they span one dimension for each interaction within a table: the
    product of (size - 1) over its variables. Up to 131,072 interactions are listed, and counted
    exactly.

    Of more, each table counts its cells less those that it shares with the one earlier table that
    shares most. That is a bound: a table has as many cells as interactions within it, the empty one
    included, and those within what it shares with an earlier table were counted there.

    Args:
        sizes: how many values each variable has.
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
        # At the least the total is shared.
        most = max((prod(sizes[i] for i in part) for part in shared), default=1)
        count += prod(sizes[i] for i in table) - most
    return count


def _parts(table: frozenset[int]) -> Iterator[frozenset[int]]:
    """All non-empty sets of variables of a table."""
    for k in range(1, len(table) + 1):
        yield from map(frozenset, combinations(table, k))
